// UCX events: one descriptor that becomes readable when a UCX wire has work. Empty without UCX headers.
//
// The reactor watches one epoll with the socket, the worker's descriptor and an eventfd. A thread that waits arms the
// worker. If another thread makes progress afterwards, it may consume the awaited event; it then signals the eventfd
// instead.
#pragma once

#if __has_include(<ucp/api/ucp.h>)

#include <ucp/api/ucp.h>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

class UcxEvents {
 public:
  UcxEvents(int socket, ucp_worker_h worker);
  int descriptor() const { return epoll_.get(); }  // to be watched in edge-triggered mode
  void clear();                                    // consumes pending events; later data triggers a new event

  // Call these with the wire's lock held.
  bool arm();  // returns true if an event will occur
  void disarm() { armed_ = false; }
  bool is_armed() const { return armed_; }
  void arm_or_wake();  // ensures that the reactor calls the wire again
  void wake();

 private:
  ucp_worker_h worker_;
  int worker_events_ = -1;
  Descriptor epoll_, wake_event_;
  bool armed_ = false;
};

}  // namespace karez::comm

#endif
