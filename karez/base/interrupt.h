// Interruption of long work: its caller installs a check, and its loops call the check at intervals.
#pragma once

#include <chrono>
#include <functional>

namespace karez::base {

// While a scope exists, `check_interrupt` on its thread calls `check` (unless it is empty) some twenty times a second;
// an exception that `check` throws ends the work. Scopes nest.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  friend void check_interrupt();
  std::function<void()> check_;
  std::chrono::steady_clock::time_point next_check_;
  InterruptScope* enclosing_;
};

// Call in loops whose iterations take at most a few milliseconds. A call takes 30 ns; outside of a scope it does
// nothing.
void check_interrupt();

}  // namespace karez::base
