// Records the error of a launch and poisons the rest of the launch.
#include "karez/runtime/launch/failure.h"

#include <atomic>
#include <cstdint>
#include <mutex>

#include "karez/runtime/load/loaded_plan.h"

namespace karez::runtime {

namespace {
// Returns "net.cc:12" for "matmul at net.cc:12".
std::string source_line(const std::string& where) {
  const std::size_t at = where.rfind(" at ");
  return at == std::string::npos ? "" : where.substr(at + 4);
}

void lower(std::atomic<std::int64_t>& value, std::int64_t max) {
  std::int64_t current = value.load();
  while (current > max && !value.compare_exchange_weak(current, max)) continue;
}
}  // namespace

void fail_launch(LoadedPlan& loaded, const ActorState& actor, const Error& cause, const std::string& where) {
  LaunchRecord* record = loaded.record(actor.launch);
  const PlanDevice& device = loaded.plan.devices[loaded.plan.stream(actor.actor->stream).device];
  std::string text = cat(where.empty() ? "" : cat(where, ": "), cause.what(), " [",
                         record == nullptr ? "between launches" : cat("launch ", record->ticket), ", actor '",
                         actor.actor->name, "', device ", device_name(device), "]");
  const Error error(cause.kind, text, cause.where.empty() ? source_line(where) : cause.where);
  if (record == nullptr) throw error;
  {
    std::lock_guard lock(record->mutex);
    if (!record->error) record->error = error;
  }
  poison_launches(loaded, *record, actor.launch);
}

void poison_launches(LoadedPlan& loaded, const LaunchRecord& record, std::int64_t launch) {
  const bool this_rank_only = record.op == 0 || !loaded.invalidate;
  if (this_rank_only) lower(loaded.released, launch);
  lower(loaded.poisoned, launch);
  if (!this_rank_only) loaded.invalidate(record.op);
}

void release_launches(LoadedPlan& loaded, std::int64_t launch) {
  lower(loaded.released, launch);
  for (auto& worker_plan : loaded.worker_plans)
    if (worker_plan && !worker_plan->resume_posted.exchange(true))
      loaded.boxes[static_cast<std::size_t>(worker_plan->worker)]->post(&worker_plan->resume);
}

}  // namespace karez::runtime
