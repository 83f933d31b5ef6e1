// The launch queue holds the launches that have not ended, sends their start tokens and detects their ends. Worker 0
// serves it.
#pragma once

#include <vector>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/load/plan_unloader.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/worker/protocol.h"
#include "karez/runtime/worker/worker_owner.h"

namespace karez::runtime {

// The launch of this op failed on some rank. If `on_all_ranks`, every rank has also poisoned its part of the launch.
struct InvalidatedOp {
  Mail mail;
  std::uint64_t op = 0;
  bool on_all_ranks = false;
};

// Launches that conflict begin in the order of their tickets:
//
//   launches of one plan     each begins when the start actors of the previous one have returned their tokens; then the
//                            tokens of registers and variables order its acts after those of the previous launch
//   launches of two plans    if one writes a variable that the other uses, the later launch begins when the earlier one
//                            is over; otherwise they run independently
//   results as inputs        a launch that takes a result of another launch begins when that launch is over
//
// A variable lock is treated as a launch without acts that the client ends.
//
// A launch fails when one of its acts throws. From then on its acts, and those of later launches of its plan, complete
// without running kernels, until the error has been reported to the program (Session::recover): every token is
// returned, and the plan can run again. A launch that takes a result of a failed launch is poisoned from its start.
class LaunchQueue {
 public:
  LaunchQueue(WorkerOwner& owner, Protocol& protocol, PlanUnloader& unloader, EventRing& events)
      : owner_(owner),
        protocol_(protocol),
        unloader_(unloader),
        events_(events) {
    queue_.reserve(1024);  // so that the worker does not allocate
  }

  void queue(LaunchRecord& record);
  // Call after the plan's session ports have received a token. Ends finished launches and begins launches that can run.
  void continue_launches(LoadedPlan& loaded);
  // Call when a client has released its variable lock, whether the lock was granted or not.
  void drop(LaunchRecord& record);
  void invalidate(const InvalidatedOp& invalidated);

 private:
  void begin();
  bool may_begin(std::size_t at) const;
  void start(LaunchRecord& record);
  void end(LoadedPlan& loaded);
  void remove(LaunchRecord& record);
  void release_ended(std::uint64_t op);

  WorkerOwner& owner_;
  Protocol& protocol_;
  PlanUnloader& unloader_;
  EventRing& events_;
  std::vector<LaunchRecord*> queue_;  // by ticket; the session limits the number of launches

  // The ops that failed on other ranks before this rank launched them; true if all ranks have poisoned them.
  std::vector<std::pair<std::uint64_t, bool>> early_invalidations_;
};

}  // namespace karez::runtime
