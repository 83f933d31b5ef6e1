// Calls of interrupt checks at intervals of time.
#include "karez/base/interrupt.h"

#include <utility>

namespace karez::base {
namespace {

constexpr auto pause = std::chrono::milliseconds(30);
thread_local InterruptScope* innermost = nullptr;

}  // namespace

InterruptScope::InterruptScope(std::function<void()> check)
    : check_(std::move(check)),
      next_(std::chrono::steady_clock::now() + pause),
      outer_(std::exchange(innermost, this)) {}
InterruptScope::~InterruptScope() { innermost = outer_; }

void check_interrupt() {
  InterruptScope* here = innermost;
  if (here == nullptr || !here->check_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < here->next_) return;
  here->next_ = now + pause;
  here->check_();
}

}  // namespace karez::base
