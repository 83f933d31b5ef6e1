// Keeps a flag for each thread of a session and a flag for a forked process.
#include "karez/runtime/session_thread.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace karez::runtime {
namespace {
std::atomic<bool> forked{false};
thread_local bool of_a_session = false;
}  // namespace

void note_session_thread() { of_a_session = true; }

SessionThreadScope::SessionThreadScope() : marked_before_(of_a_session) { of_a_session = true; }

SessionThreadScope::~SessionThreadScope() { of_a_session = marked_before_; }

bool is_session_thread() { return of_a_session; }

bool is_forked_child() { return forked.load(std::memory_order_relaxed); }

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forked = true; }); });
}

}  // namespace karez::runtime
