// The list of the open sessions of the process. It is used only to end them when the process exits.
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

struct OpenSessions {
  std::recursive_mutex mutex;  // recursive: `end` calls `forget_at_exit`
  std::vector<Session*> sessions;
  std::atomic<std::uint64_t> calls{0};  // the number of calls of end_at_exit
};

OpenSessions& open_sessions() {
  static OpenSessions* const all = new OpenSessions;  // never destroyed: sessions with static storage may end later
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
  std::lock_guard lock(open_sessions().mutex);
  while (!open_sessions().sessions.empty()) {
    Session* const session = open_sessions().sessions.back();
    open_sessions().sessions.pop_back();
    end(*session, Session::ShutdownMode::graceful);
  }
}

// Ends all sessions when the main thread exits: `exit` destroys the thread-local objects of the calling thread before
// it runs any handler.
struct EndsWithMainThread {
  ~EndsWithMainThread() { end_all(); }
};

}  // namespace

void end_at_exit(Session& session) {
  watch_forks();
  {
    std::lock_guard lock(open_sessions().mutex);
    auto& sessions = open_sessions().sessions;
    if (std::find(sessions.begin(), sessions.end(), &session) == sessions.end()) sessions.push_back(&session);
  }
  if (gettid() == getpid()) [[maybe_unused]]
    thread_local const EndsWithMainThread ends;
  // Registers the handler only if the count is a power of two, because the memory of a registration is never freed.
  if (std::has_single_bit(++open_sessions().calls)) std::atexit(end_all);
}

void forget_at_exit(Session& session) {
  std::lock_guard lock(open_sessions().mutex);
  std::erase(open_sessions().sessions, &session);
}

}  // namespace karez::runtime
