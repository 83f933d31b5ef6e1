// Reactor: the communication thread of a process, which waits in epoll and calls the handlers of ready descriptors.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "karez/comm/namespace.h"

namespace karez::comm {

// The handler of a descriptor. `on_events` runs on the reactor's thread; it must not throw, block or compute for long.
class EventHandler {
 public:
  virtual void on_events(std::uint32_t events) noexcept = 0;  // epoll events

 protected:
  ~EventHandler() = default;
};

class Reactor {
 public:
  struct Registration {
    int descriptor = -1;
    std::uint64_t id = 0;  // 0: nothing is watched
  };

  Reactor();
  ~Reactor();  // after all registrations are removed
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // From any thread; the caller must hold no lock that `on_events` takes. The handler may be called before `watch`
  // returns; `out` is set by then.
  void watch(int descriptor, std::uint32_t events, EventHandler& handler, Registration& out);
  void change(const Registration& watch, std::uint32_t events);  // reports pending events again
  void schedule(const Registration& watch);  // a call soon, with no events; from any thread, under any lock
  // After it returns, the handler is not called any more; on the reactor's own thread, from the next event on.
  void remove(Registration& watch);
  // Runs `body` while no handler is called: for an owner that removes several handlers, one of which may destroy
  // another.
  template <class Body> void with_dispatch_paused(Body body) {
    std::lock_guard lock(mutex_);
    body();
  }

 private:
  void serve();
  void dispatch(std::uint64_t id, std::uint32_t events);

  int epoll_ = -1, wake_event_ = -1;  // wake_event_: an eventfd
  std::recursive_mutex mutex_;        // held while a handler is called
  std::unordered_map<std::uint64_t, EventHandler*> handlers_;
  std::uint64_t next_ = 1;
  std::mutex scheduled_mutex_;
  std::vector<std::uint64_t> scheduled_, now_;  // ids of handlers to call
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace karez::comm
