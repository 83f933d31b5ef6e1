// Release of the interpreter's lock while C++ works or waits, also for threads that acquire it again while the program
// ends.
#pragma once

#include <nanobind/nanobind.h>

namespace karez::python {

// Releases the lock during its lifetime. While the program ends, a thread that acquires the lock again, other than the
// ending thread, blocks forever: the interpreter would end it by unwinding its stack (before 3.14), through C++ frames
// that do not allow it.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// Called by the thread that ends the program: from now on other threads block when they acquire the lock again.
void stop_other_threads();
// Waits until no other thread is inside C++, up to a timeout.
void await_other_threads(double seconds);

}  // namespace karez::python
