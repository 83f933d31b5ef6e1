// Counts the threads that are inside C++ without the interpreter's lock, and stops them while the program ends.
#include "python/src/gil_release.h"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace karez::python {
namespace {

// One counter suffices, since a process has one interpreter.
std::atomic<int> threads_inside{0};
thread_local int depth = 0;  // the nesting depth of this thread: C++ may call Python, which calls C++
std::atomic<std::thread::id> finalizing_thread{};

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
  if (PyGILState_GetThisThreadState() == nullptr) thread_local const ThreadState state;
}

void block_forever() {
  for (;;) pause();
}

bool is_finalizing_elsewhere() {
  const std::thread::id thread = finalizing_thread.load();
  return thread != std::thread::id() && thread != std::this_thread::get_id();
}

GilRelease::GilRelease() {
  if (depth++ == 0) ++threads_inside;
  state_ = PyEval_SaveThread();
}

GilRelease::~GilRelease() {
  const bool ends = is_finalizing_elsewhere();
  if (--depth == 0 || ends) --threads_inside;
  if (ends) block_forever();
  try {
    PyEval_RestoreThread(state_);
  } catch (abi::__forced_unwind&) {
    block_forever();
  }  // the interpreter began to shut down while this thread waited for the lock
}

void stop_other_threads() { finalizing_thread = std::this_thread::get_id(); }

void await_other_threads(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (threads_inside > 1 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace karez::python
