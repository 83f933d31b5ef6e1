// The list of the process's sessions, which end when it exits; the list has no other use.
#include "karez/runtime/exit.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "karez/runtime/session.h"
#include "karez/runtime/session_thread.h"

namespace karez::runtime {
namespace {

struct Living {
  std::recursive_mutex mutex;  // recursive: `end` calls `forget_at_exit`
  std::vector<Session*> sessions;
  std::atomic<std::uint64_t> calls{0};  // calls of end_at_exit
};

Living& living() {
  static Living* const all = new Living;  // never destroyed: sessions with static storage may end later
  return *all;
}

void end(Session& session, Session::ShutdownMode how) {
  try {
    session.end(how, "its process exits");
  } catch (...) {  // `while_waiting` ended the wait
    if (how == Session::ShutdownMode::graceful) end(session, Session::ShutdownMode::immediate);
  }
}

void end_all() {
  if (is_session_thread() || is_forked_child()) return;
  std::lock_guard lock(living().mutex);
  while (!living().sessions.empty()) {
    Session* const session = living().sessions.back();
    living().sessions.pop_back();
    end(*session, Session::ShutdownMode::graceful);
  }
}

// `exit` destroys thread-local objects of the calling thread before it runs any handler.
struct EndsWithMainThread {
  ~EndsWithMainThread() { end_all(); }
};

}  // namespace

void end_at_exit(Session& session) {
  watch_forks();
  {
    std::lock_guard lock(living().mutex);
    auto& sessions = living().sessions;
    if (std::find(sessions.begin(), sessions.end(), &session) == sessions.end()) sessions.push_back(&session);
  }
  if (gettid() == getpid()) [[maybe_unused]]
    thread_local const EndsWithMainThread ends;
  // At powers of two only, because each registration takes memory permanently.
  if (std::has_single_bit(++living().calls)) std::atexit(end_all);
}

void forget_at_exit(Session& session) {
  std::lock_guard lock(living().mutex);
  std::erase(living().sessions, &session);
}

}  // namespace karez::runtime
