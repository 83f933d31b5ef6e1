// The interpreter's lock, let go while C++ works or waits; and what becomes of threads that come back for it when the
// program ends.
#pragma once

#include <nanobind/nanobind.h>

namespace karez::python {

// Lets other Python threads run as long as it lives. A thread that wants the lock back once the program ends, other
// than the one that ends it, stops there for good: the interpreter would end it by unwinding its stack (before 3.14),
// through C++ that does not allow that.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// By the thread that ends the program: from now on other threads stop where they come back for the lock.
void stop_other_threads();
// Waits until none of them is inside of C++, at most so long.
void await_other_threads(double seconds);

}  // namespace karez::python
