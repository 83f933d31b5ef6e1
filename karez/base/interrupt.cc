// Calls the installed interrupt checks at intervals of time.
#include "karez/base/interrupt.h"

#include <utility>

namespace karez::base {
namespace {

constexpr auto pause = std::chrono::milliseconds(30);
thread_local InterruptScope* innermost = nullptr;

}  // namespace

InterruptScope::InterruptScope(std::function<void()> check)
    : check_(std::move(check)),
      next_check_(std::chrono::steady_clock::now() + pause),
      enclosing_(std::exchange(innermost, this)) {}
InterruptScope::~InterruptScope() { innermost = enclosing_; }

void check_interrupt() {
  InterruptScope* scope = innermost;
  if (scope == nullptr || !scope->check_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < scope->next_check_) return;
  scope->next_check_ = now + pause;
  scope->check_();
}

}  // namespace karez::base
