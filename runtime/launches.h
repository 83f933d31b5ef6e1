// The session's side of launches, served by worker 0: the queue of those to come, a start token for each source, and the end.
#pragma once

#include "runtime/event_ring.h"
#include "runtime/protocol.h"
#include "runtime/unload.h"

namespace karez::runtime {

class Session;

class Launches {
 public:
  Launches(Session& session, Protocol& protocol, Unloading& unloading, EventRing& events)
      : session_(session),
        protocol_(protocol),
        unloading_(unloading),
        events_(events) {}

  void queue(LaunchRecord& record);
  // The plan's session ports took a token: ends the launch if that was the last, and begins what is next in the queue if it can.
  void go_on(Loaded& loaded);

 private:
  void begin();
  void end(Loaded& loaded);
  void drop_first();

  Session& session_;
  Protocol& protocol_;
  Unloading& unloading_;
  EventRing& events_;
  LaunchRecord *first_ = nullptr, *last_ = nullptr;  // oldest first; the first is in flight if `in_flight_`
  bool in_flight_ = false;
};

}  // namespace karez::runtime
