// Long work that somebody may want to end: who begins it says whom to ask, and its loops ask now and then.
#pragma once

#include <chrono>
#include <functional>

namespace karez::base {

// While it lives, `check_interrupt` of this thread calls `ask` (unless it is empty), some twenty times a second; what
// that throws leaves the work. Scopes nest.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  friend void check_interrupt();
  std::function<void()> check_;
  std::chrono::steady_clock::time_point next_;
  InterruptScope* outer_;
};

// Stands in loops whose turns take less than some milliseconds; takes 30 ns. Where nobody is to be asked it does
// nothing.
void check_interrupt();

}  // namespace karez::base
