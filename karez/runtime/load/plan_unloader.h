// Unloads a plan while others run: its workers detach from it in two rounds of mail, after which no thread uses its
// memory.
#pragma once

#include "karez/runtime/namespace.h"
#include "karez/runtime/worker/protocol.h"
#include "karez/runtime/worker/worker_owner.h"

namespace karez::runtime {

class PlanUnloader {
 public:
  PlanUnloader(WorkerOwner& owner, Protocol& protocol) : owner_(owner), protocol_(protocol) {}

  // Worker 0 only. Starts to unload the plan; posted after the mail of all its launches.
  void begin(LoadedPlan& loaded);
  void on_launch_end(LoadedPlan& loaded);  // worker 0 only; call after a launch of the plan has ended
  void on_detached(LoadedPlan& loaded);    // worker 0 only; call after a worker plan has been detached

  // Any worker: stops serving the worker plan; handles mail for a worker plan that is no longer served.
  void detach(WorkerPlan& worker_plan);
  void open_late_mail(Mail& mail);

 private:
  void request_detach(LoadedPlan& loaded);

  WorkerOwner& owner_;
  Protocol& protocol_;
};

}  // namespace karez::runtime
