// Releases the interpreter's lock while C++ works or waits, and stops threads that acquire it again while the program
// ends.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>

namespace karez::python {

// Releases the lock during its lifetime. While the program ends, any thread except the one that ends it blocks forever
// when it acquires the lock again. Otherwise the interpreter (before 3.14) would end the thread by unwinding its stack,
// which has C++ frames that must not be unwound.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

[[noreturn]] void block_forever();
bool is_finalizing_elsewhere();  // whether another thread ends the program

// Until this thread ends, acquiring the lock uses the same state of the interpreter. Otherwise a thread of C++ would
// make one for each call, which takes longer than a small function. A thread that joins this one must not hold the
// lock.
void keep_thread_state();

// Acquires the lock on a thread of C++ and calls f. While another thread ends the program, the thread blocks forever,
// also if Python code that f calls acquires the lock again.
template <class F> auto with_gil(F&& f) {
  if (is_finalizing_elsewhere()) block_forever();
  try {
    keep_thread_state();
    nanobind::gil_scoped_acquire gil;
    return f();
  } catch (abi::__forced_unwind&) { block_forever(); }  // the interpreter ends this thread
}

// Called by the thread that ends the program. From then on, other threads block when they acquire the lock again.
void stop_other_threads();
// Waits until no other thread is inside C++, for at most this time.
void await_other_threads(double seconds);

}  // namespace karez::python
