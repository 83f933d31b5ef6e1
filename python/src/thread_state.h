// Keeps the interpreter's state of a thread of C++ between its calls of Python functions.
#pragma once

namespace karez::python {

// Until this thread ends, acquiring the interpreter's lock uses the same state of the interpreter. Without it, each
// call makes a new one, which takes longer than a small function. The thread that joins this one must not hold the
// lock.
void keep_thread_state();

}  // namespace karez::python
