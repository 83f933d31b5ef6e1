// Implements UCX events with an epoll, and the rules for arming the worker.
#include "karez/comm/transport/ucx_events.h"

#if __has_include(<ucp/api/ucp.h>)

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "karez/base/error.h"
#include "karez/comm/transport/ucx_library.h"

namespace karez::comm {

UcxEvents::UcxEvents(int socket, ucp_worker_h worker)
    : worker_(worker),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ucx_library().require(ucx_library().descriptor(worker_, &worker_events_), "report events with these transports");
  for (int descriptor : {socket, wake_event_.get(), worker_events_}) {
    epoll_event event{};
    event.events = descriptor == socket ? EPOLLIN | EPOLLRDHUP : EPOLLIN;
    const bool added = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
    require(ErrorKind::device, added, "epoll_ctl failed for descriptor ", descriptor, ": ", std::strerror(errno));
  }
}

void UcxEvents::clear() {
  epoll_event pending[4];
  [[maybe_unused]] int count = epoll_wait(epoll_.get(), pending, 4, 0);
  std::uint64_t wakeups = 0;
  [[maybe_unused]] auto bytes = ::read(wake_event_.get(), &wakeups, sizeof wakeups);
}

// The worker is not armed if an event is pending already, or if UCX has work that triggers no event.
bool UcxEvents::arm() {
  armed_ = ucx_library().arm(worker_) == UCS_OK;
  pollfd ready{worker_events_, POLLIN, 0};
  if (armed_ && poll(&ready, 1, 0) != 0) armed_ = false;  // a pending event triggers no new edge
  return armed_;
}

void UcxEvents::arm_or_wake() {
  if (!arm()) wake();
}

void UcxEvents::wake() {
  armed_ = false;
  const std::uint64_t increment = 1;
  [[maybe_unused]] auto bytes = ::write(wake_event_.get(), &increment, sizeof increment);
}

}  // namespace karez::comm

#endif
