// Keeps the interpreter's state of a thread of C++ between its calls of Python functions.
#include "python/src/thread_state.h"

#include "python/src/gil_release.h"

namespace karez::python {
namespace {

class ThreadState {
 public:
  ThreadState() : gil_(PyGILState_Ensure()), state_(PyEval_SaveThread()) {}
  ~ThreadState() {
    if (Py_IsInitialized() == 0 || is_finalizing_elsewhere()) return;  // the interpreter frees the state
    try {
      PyEval_RestoreThread(state_);
      PyGILState_Release(gil_);
    } catch (abi::__forced_unwind&) { block_forever(); }  // the interpreter ends this thread
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

 private:
  PyGILState_STATE gil_;
  PyThreadState* state_;
};

}  // namespace

void keep_thread_state() {
  if (PyGILState_GetThisThreadState() != nullptr || is_finalizing_elsewhere()) return;
  try {
    thread_local const ThreadState state;
  } catch (abi::__forced_unwind&) { block_forever(); }
}

}  // namespace karez::python
