// The session's side of launches, served by worker 0: the queue of those that are not over, a start token for each
// source, and the end.
#pragma once

#include <vector>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/plan_unloader.h"
#include "karez/runtime/protocol.h"

namespace karez::runtime {

class Session;

// The launch of this op failed on some rank; later: and every rank has poisoned its part of it.
struct InvalidatedOp {
  Mail mail;
  std::uint64_t op = 0;
  bool on_all_ranks = false;
};

// Launches begin in the order of their tickets, as far as they meet:
//
//   one plan's      each begins when the sources of the one before have given their start tokens back; from there the
//   tokens of registers and
//                   variables order its acts behind those of the one before
//   two plans'      if one writes a variable of the other, the later one begins when the earlier one is over; otherwise
//   nothing holds it a result that     one of them takes of another: the later one begins when the earlier one is over
//   a client's turn at variables is such a launch, without acts: the client ends it
//
// A launch fails when an act of it throws. From there on its acts, and those of later launches of its plan, complete
// without working, until the program has been told (Session::recover): every token comes home, and the plan can run
// again. A launch that takes a result of one that failed is poisoned from its start.
class LaunchQueue {
 public:
  LaunchQueue(Session& session, Protocol& protocol, PlanUnloader& unloading, EventRing& events)
      : session_(session),
        protocol_(protocol),
        unloader_(unloading),
        events_(events) {
    queue_.reserve(1024);  // so that the worker need not allocate
  }

  void queue(LaunchRecord& record);
  // The plan's session ports took a token: ends the launches that are over by that, and begins what now can.
  void continue_launches(LoadedPlan& loaded);
  // A client's turn is over, begun or not.
  void drop(LaunchRecord& record);
  void invalidate(const InvalidatedOp& invalidated);

 private:
  void begin();
  bool may_begin(std::size_t at) const;
  void start(LaunchRecord& record);
  void end(LoadedPlan& loaded);
  void remove(LaunchRecord& record);
  void release_ended(std::uint64_t op);

  Session& session_;
  Protocol& protocol_;
  PlanUnloader& unloader_;
  EventRing& events_;
  std::vector<LaunchRecord*> queue_;  // by ticket; the session bounds how many launches
  std::vector<std::pair<std::uint64_t, bool>>
      early_invalidations_;  // ops that failed on other ranks before they were launched here, and whether on all
};

}  // namespace karez::runtime
