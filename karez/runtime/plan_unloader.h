// Unloading a plan while others run: its workers let go of it in two rounds of mail, and then nobody can touch its
// memory any more.
#pragma once

#include "karez/runtime/namespace.h"
#include "karez/runtime/protocol.h"

namespace karez::runtime {

class Session;

class PlanUnloader {
 public:
  PlanUnloader(Session& session, Protocol& protocol) : session_(session), protocol_(protocol) {}

  // Worker 0: the plan shall go (it hears of it after every launch of the plan, because both are posted in order); a
  // launch of it is over; a part of it answered.
  void begin(LoadedPlan& loaded);
  void on_launch_end(LoadedPlan& loaded);
  void detached(LoadedPlan& loaded);

  // Any worker: stop serving the part; mail for a part that is leaving.
  void detach(WorkerPlan& worker_plan);
  void open_late_mail(Mail& mail);

 private:
  void request_detach(LoadedPlan& loaded);

  Session& session_;
  Protocol& protocol_;
};

}  // namespace karez::runtime
