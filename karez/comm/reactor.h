// The communication thread of a process: one epoll, and whom it calls when something happens on a descriptor.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "karez/comm/namespace.h"

namespace karez::comm {

// Whoever is called for a descriptor. `ready` runs on the reactor's thread; it must not throw, block or work for long.
class EventHandler {
 public:
  virtual void on_events(std::uint32_t events) noexcept = 0;  // of epoll

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
  ~Reactor();  // nothing may be watched any more
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // From any thread; the caller must hold no lock that `ready` takes. `call` may come before `watch` returns, with
  // `out` filled in already.
  void watch(int descriptor, std::uint32_t events, EventHandler& handler, Registration& out);
  void change(const Registration& watch, std::uint32_t events);  // what is the case already is told again
  void schedule(const Registration& watch);  // soon, with no events; from any thread, whatever it holds
  // When it returns, nobody is called for it any more; on the reactor's own thread, from the next event on.
  void remove(Registration& watch);
  // Runs `body` while nobody is called: for one who lets go of several at once, of which one may let go of another.
  template <class Body> void with_dispatch_paused(Body body) {
    std::lock_guard lock(mutex_);
    body();
  }

 private:
  void serve();
  void dispatch(std::uint64_t id, std::uint32_t events);

  int epoll_ = -1, wake_event_ = -1;  // woken_: an eventfd
  std::recursive_mutex mutex_;        // held while somebody is called
  std::unordered_map<std::uint64_t, EventHandler*> handlers_;
  std::uint64_t next_ = 1;
  std::mutex scheduled_mutex_;
  std::vector<std::uint64_t> scheduled_, now_;  // who asked to be called
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace karez::comm
