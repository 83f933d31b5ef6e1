// Unloads a plan while other plans run. The workers detach from the plan in two rounds of mail; after that no thread
// uses its memory.
#pragma once

#include "karez/runtime/namespace.h"
#include "karez/runtime/worker/protocol.h"
#include "karez/runtime/worker/worker_owner.h"

namespace karez::runtime {

class PlanUnloader {
 public:
  PlanUnloader(WorkerOwner& owner, Protocol& protocol) : owner_(owner), protocol_(protocol) {}

  // Worker 0 only. Starts to unload the plan. The mail with this request arrives after the mails of all launches of the
  // plan.
  void begin(LoadedPlan& loaded);
  void on_launch_end(LoadedPlan& loaded);  // worker 0 only; call after a launch of the plan has ended
  void on_detached(LoadedPlan& loaded);    // worker 0 only; call after a worker plan has been detached

  // Any worker.
  void detach(WorkerPlan& worker_plan);  // stops serving the worker plan
  void open_late_mail(Mail& mail);       // handles mail for a worker plan that is no longer served

 private:
  void request_detach(LoadedPlan& loaded);

  WorkerOwner& owner_;
  Protocol& protocol_;
};

}  // namespace karez::runtime
