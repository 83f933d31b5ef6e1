// One list of living sessions in the process, because it is the process that exits; nothing else asks for it.
#include "karez/runtime/exit.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "karez/runtime/session.h"

namespace karez::runtime {
namespace {

std::atomic<bool> forked{false};
thread_local bool of_a_session = false;

struct Living {
  std::recursive_mutex mutex;  // `end` comes back to `forget_at_exit`
  std::vector<Session*> sessions;
  std::atomic<std::uint64_t> calls{0};  // of end_at_exit
  Living() {
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
  }
};

Living& living() {
  static Living* const all = new Living;  // never destroyed: sessions with static storage end later
  return *all;
}

void end(Session& session, Session::ShutdownMode how) {
  try {
    session.end(how, "its process exits");
  } catch (...) {  // `while_waiting` wants to wait no longer
    if (how == Session::ShutdownMode::graceful) end(session, Session::ShutdownMode::immediate);
  }
}

void end_all() {
  if (of_a_session || is_forked_child()) return;
  std::lock_guard lock(living().mutex);
  while (!living().sessions.empty()) {
    Session* const session = living().sessions.back();
    living().sessions.pop_back();
    end(*session, Session::ShutdownMode::graceful);
  }
}

// `exit` destroys what is local to the calling thread before it runs any handler.
struct EndsWithMainThread {
  ~EndsWithMainThread() { end_all(); }
};

}  // namespace

void end_at_exit(Session& session) {
  {
    std::lock_guard lock(living().mutex);
    auto& sessions = living().sessions;
    if (std::find(sessions.begin(), sessions.end(), &session) == sessions.end()) sessions.push_back(&session);
  }
  if (gettid() == getpid()) [[maybe_unused]]
    thread_local const EndsWithMainThread ends;
  if (std::has_single_bit(++living().calls)) std::atexit(end_all);  // ever rarer, as each takes memory for good
}

void forget_at_exit(Session& session) {
  std::lock_guard lock(living().mutex);
  std::erase(living().sessions, &session);
}

void note_session_thread() { of_a_session = true; }

bool is_forked_child() { return forked.load(std::memory_order_relaxed); }

}  // namespace karez::runtime
