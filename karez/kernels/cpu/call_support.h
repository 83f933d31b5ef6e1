// Remembers which calls a kernel supports, because the compiler asks for a call and the loader asks again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"
#include "karez/plan/call_key.h"

namespace karez::kernels {

// Returns the bytes of workspace that a call needs, or nullopt if the kernel does not support the call. The answer must
// depend on the call alone.
using CallSupport = std::function<std::optional<std::int64_t>(const CallSpec&)>;

// Sets `supports` and `workspace` of the row to a function that computes each answer once. For kernels whose answers
// take many microseconds. The row's copies share the answers, and may be used on several threads.
inline void set_support(KernelRow& row, CallSupport compute) {
  struct Answers {
    std::mutex mutex;
    std::unordered_map<std::string, std::optional<std::int64_t>> by_key;
  };
  constexpr std::size_t max_answers = 1024;  // enough for the calls of several programs; about 0.5 MB
  auto answer = [compute = std::move(compute), answers = std::make_shared<Answers>()](const CallSpec& call) {
    std::string key = plan::call_key(call);
    {
      std::lock_guard lock(answers->mutex);
      if (const auto known = answers->by_key.find(key); known != answers->by_key.end()) return known->second;
    }
    const std::optional<std::int64_t> workspace = compute(call);
    std::lock_guard lock(answers->mutex);
    if (answers->by_key.size() >= max_answers) answers->by_key.clear();
    answers->by_key.insert_or_assign(std::move(key), workspace);
    return workspace;
  };
  row.supports = [answer](const CallSpec& call) { return answer(call).has_value(); };
  row.workspace = [answer, name = row.name](const CallSpec& call) {
    const std::optional<std::int64_t> bytes = answer(call);
    if (!bytes) fail("kernel ", name, " does not support ", print(call));
    return *bytes;
  };
}

}  // namespace karez::kernels
