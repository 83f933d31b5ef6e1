// Implements the two rounds in which workers detach from a plan.
#include "karez/runtime/load/plan_unloader.h"

#include <algorithm>

namespace karez::runtime {

void PlanUnloader::begin(LoadedPlan& loaded) {
  loaded.unloading = true;
  if (loaded.queued == 0) request_detach(loaded);
}

void PlanUnloader::on_launch_end(LoadedPlan& loaded) {
  if (--loaded.queued == 0 && loaded.unloading) request_detach(loaded);
}

// When a launch is over, all acts that it waits for are over, but returned tokens may still be in transit. In the first
// round, each worker stops serving its worker plan and so sends no more messages. All earlier messages are in the
// mailboxes before the mail of the second round. So when all workers have answered that mail, no mail of the plan is
// left.
void PlanUnloader::request_detach(LoadedPlan& loaded) {
  ++loaded.unload_round;
  for (auto& worker_plan : loaded.worker_plans) loaded.attached += worker_plan != nullptr;
  for (auto& worker_plan : loaded.worker_plans) {
    if (!worker_plan) continue;
    worker_plan->detach.kind = Mail::Kind::detach;
    loaded.boxes[static_cast<std::size_t>(worker_plan->worker)]->post(&worker_plan->detach);
  }
  if (loaded.attached == 0) owner_.on_unloaded(loaded);  // a plan without actors
}

void PlanUnloader::detach(WorkerPlan& worker_plan) {
  worker_plan.unloading = true;
  protocol_.detach(worker_plan);
  open_late_mail(worker_plan.detach);
}

// Mail for a worker plan that is no longer served has no effect, except that the worker plan stays attached until its
// running asynchronous kernels have ended.
void PlanUnloader::open_late_mail(Mail& mail) {
  WorkerPlan& worker_plan = *mail.worker_plan;
  if (mail.kind == Mail::Kind::finished) {
    const ActorState& actor = *worker_plan.actors[static_cast<std::size_t>(mail.local_index)];
    if (actor.work == WorkKind::async_call) worker_plan.stream_busy[static_cast<std::size_t>(actor.stream)] = 0;
  } else if (mail.kind != Mail::Kind::detach) {
    return;
  }
  if (std::find(worker_plan.stream_busy.begin(), worker_plan.stream_busy.end(), 1) != worker_plan.stream_busy.end())
    return;
  worker_plan.detach.kind = Mail::Kind::detached;
  worker_plan.detach.payload = worker_plan.loaded;
  worker_plan.detach.worker_plan = nullptr;
  worker_plan.loaded->boxes[0]->post(&worker_plan.detach);
}

void PlanUnloader::on_detached(LoadedPlan& loaded) {
  if (--loaded.attached > 0) return;
  if (loaded.unload_round == 2) return owner_.on_unloaded(loaded);
  for (auto& worker_plan : loaded.worker_plans)
    if (worker_plan) worker_plan->detach.worker_plan = worker_plan.get();
  request_detach(loaded);
}

}  // namespace karez::runtime
