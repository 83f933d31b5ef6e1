// The reactor: waits in epoll and calls handlers under a lock that `remove` also takes, so that no handler is called
// after its removal.
#include "karez/comm/transport/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "karez/base/error.h"
#include "karez/comm/time_slice.h"

namespace karez::comm {
namespace {
constexpr std::uint64_t wake_event_id = 0;

void control(int epoll, int operation, int descriptor, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  const bool ok = epoll_ctl(epoll, operation, descriptor, &event) == 0;
  require(ErrorKind::device, ok, "epoll_ctl failed for descriptor ", descriptor, ": ", std::strerror(errno));
}

// A rank uses several descriptors for each peer, which exceed the usual soft limit of 1,024 long before the hard limit.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t new_limit = std::min<rlim_t>(limit.rlim_max, 1 << 16);
  if (limit.rlim_cur >= new_limit) return;
  limit.rlim_cur = new_limit;
  setrlimit(RLIMIT_NOFILE, &limit);
}
}  // namespace

Reactor::Reactor() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  require(ErrorKind::device, epoll_ >= 0 && wake_event_ >= 0,
          "cannot create the epoll of the communication thread: ", std::strerror(errno));
  raise_descriptor_limit();
  control(epoll_, EPOLL_CTL_ADD, wake_event_, EPOLLIN, wake_event_id);
  scheduled_.reserve(64);
  called_.reserve(64);
  thread_ = std::thread([this] { serve(); });
}

Reactor::~Reactor() {
  {
    std::lock_guard lock(scheduled_mutex_);
    stopped_ = true;
  }
  schedule({});
  thread_.join();
  ::close(wake_event_);
  ::close(epoll_);
}

void Reactor::watch(int descriptor, std::uint32_t events, EventHandler& handler, Registration& out) {
  std::lock_guard lock(mutex_);
  out = {descriptor, next_id_++};
  handlers_.emplace(out.id, &handler);
  control(epoll_, EPOLL_CTL_ADD, descriptor, events, out.id);
}

void Reactor::change(const Registration& registration, std::uint32_t events) {
  control(epoll_, EPOLL_CTL_MOD, registration.descriptor, events, registration.id);
}

void Reactor::schedule(const Registration& registration) {
  std::lock_guard lock(scheduled_mutex_);
  scheduled_.push_back(registration.id);
  if (scheduled_.size() > 1) return;  // the first call has woken the reactor already
  std::uint64_t increment = 1;
  [[maybe_unused]] auto bytes = ::write(wake_event_, &increment, sizeof increment);
}

void Reactor::remove(Registration& registration) {
  if (registration.id == 0) return;
  std::lock_guard lock(mutex_);
  handlers_.erase(registration.id);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, registration.descriptor, nullptr);
  registration = {};
}

void Reactor::dispatch(std::uint64_t id, std::uint32_t events) {
  std::lock_guard lock(mutex_);
  if (auto entry = handlers_.find(id); entry != handlers_.end()) entry->second->on_events(events);
}

void Reactor::serve() {
  request_short_time_slice();
  constexpr int max_events = 64;
  epoll_event events[max_events];
  while (true) {
    int n = epoll_wait(epoll_, events, max_events, -1);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 != wake_event_id) {
        dispatch(events[i].data.u64, events[i].events);
        continue;
      }
      std::uint64_t count = 0;
      [[maybe_unused]] auto bytes = ::read(wake_event_, &count, sizeof count);
      {
        std::lock_guard lock(scheduled_mutex_);
        if (stopped_) return;
        called_.swap(scheduled_);
      }
      for (std::uint64_t id : called_) dispatch(id, 0);
      called_.clear();
    }
  }
}

}  // namespace karez::comm
