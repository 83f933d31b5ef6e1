// Interruption of long computations: the caller installs a check, which the loops of the computation call at intervals.
#pragma once

#include <chrono>
#include <functional>

namespace karez::base {

// While a scope exists, `check_interrupt` on its thread calls `check` (unless it is empty) about thirty times a second.
// An exception that `check` throws ends the computation. Scopes nest.
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
