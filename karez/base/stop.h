// Long work that somebody may want to end: who begins it says whom to ask, and its loops ask now and then.
#pragma once

#include <chrono>
#include <functional>

namespace karez::base {

// While it lives, `may_stop` of this thread calls `ask` (unless it is empty), some twenty times a second; what that
// throws leaves the work. Scopes nest.
class Stoppable {
 public:
  explicit Stoppable(std::function<void()> ask);
  ~Stoppable();
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;

 private:
  friend void may_stop();
  std::function<void()> ask_;
  std::chrono::steady_clock::time_point next_;
  Stoppable* before_;
};

// Stands in loops whose turns take less than some milliseconds; takes 30 ns. Where nobody is to be asked it does
// nothing.
void may_stop();

}  // namespace karez::base
