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
    std::uint64_t id = 0;  // 0 if no descriptor is watched
  };

  Reactor();
  ~Reactor();  // call after all registrations are removed
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Callable from any thread; the caller must hold no lock that `on_events` takes. The handler may be called before
  // `watch` returns; `out` is set by then.
  void watch(int descriptor, std::uint32_t events, EventHandler& handler, Registration& out);
  void change(const Registration& registration, std::uint32_t events);  // reports pending events again
  // Makes the reactor call the handler soon, without events. Callable from any thread, with any lock held.
  void schedule(const Registration& registration);
  // After `remove` returns, the handler is not called any more. On the reactor's thread, this holds from the next event
  // on.
  void remove(Registration& registration);
  // Runs `body` while no handler is called. It is for owners that remove several handlers, one of which may destroy
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
  std::uint64_t next_id_ = 1;
  std::mutex scheduled_mutex_;
  std::vector<std::uint64_t> scheduled_, called_;  // ids of the handlers to call next, and of those being called
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace karez::comm
