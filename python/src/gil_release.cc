// Counting the threads that are inside of C++ without the interpreter's lock.
#include "python/src/gil_release.h"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace karez::python {
namespace {

// Of the process, as the interpreter is.
std::atomic<int> inside{0};  // threads
thread_local int depth = 0;  // of this one: it may call Python, which calls C++
std::atomic<std::thread::id> ender{};

[[noreturn]] void stop_here() {
  for (;;) pause();
}

bool ends_elsewhere() {
  const std::thread::id who = ender.load();
  return who != std::thread::id() && who != std::this_thread::get_id();
}

}  // namespace

GilRelease::GilRelease() {
  if (depth++ == 0) ++inside;
  state_ = PyEval_SaveThread();
}

GilRelease::~GilRelease() {
  const bool ends = ends_elsewhere();
  if (--depth == 0 || ends) --inside;
  if (ends) stop_here();
  try {
    PyEval_RestoreThread(state_);
  } catch (abi::__forced_unwind&) {
    stop_here();
  }  // the interpreter began to end while this thread waited for the lock
}

void stop_other_threads() { ender = std::this_thread::get_id(); }

void await_other_threads(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (inside > 1 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace karez::python
