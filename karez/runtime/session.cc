// Constructs a session and reports its counters.
#include "karez/runtime/session.h"

#include <chrono>

#include "karez/runtime/launch/launch_queue.h"
#include "karez/runtime/launch/launch_table.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/variable_store.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {

Session::Session(SessionOptions options, const KernelTable& kernels)
    : options_(options),
      origin_(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
                  .count()),
      kernels_(&kernels),
      variables_(std::make_unique<VariableStore>()),
      idle_clock_(options_.idle_clock ? options_.idle_clock : std::make_shared<IdleClock>()) {
  require(options_.workers >= 0, "session: workers must be at least 0, got ", options_.workers);
  require(options_.in_flight >= 1 && options_.in_flight <= 1024, "session: in_flight must be from 1 to 1024, got ",
          options_.in_flight);
  require(options_.delays.max_microseconds >= 0, "session: delays.max_microseconds must be at least 0, got ",
          options_.delays.max_microseconds);
  workers_ = std::make_unique<WorkerPool>(
      static_cast<WorkerOwner&>(*this), mutex_,
      WorkerPool::Options{options_.workers, options_.events, options_.spin_microseconds, options_.pin});
  launches_ = std::make_unique<LaunchTable>(options_.in_flight);
  if (options_.peers != nullptr) join_ranks();
}

void Session::count(const LoadedPlan& loaded, Counters& c) const {
  c.messages += loaded.session_ports.messages.value();
  for (const auto& part : loaded.worker_plans) {
    if (!part) continue;
    c.acts += part->acts.value();
    c.messages += part->messages.value();
    for (const auto& [kind, bytes] : part->sent_bytes) c.sent_bytes[std::string(name_of(kind))] += bytes.value();
  }
}

Counters Session::counters() {
  wait_idle();
  free_unloaded();
  std::lock_guard lock(mutex_);
  Counters c = unloaded_counters_;
  c.launches = launches_->launched();
  c.workers = workers_->size();
  for (const auto& [number, loaded] : loaded_) count(*loaded, c);
  for (const auto& loaded : unloading_plans_) count(*loaded, c);
  for (const auto& [name, device] : devices_) {
    c.peak_bytes[name] = device->memory().peak;
    c.held_bytes[name] = device->value_memory().current;
  }
  return c;
}

std::map<std::string, std::int64_t> Session::arena_bytes() {
  free_unloaded();
  std::lock_guard lock(mutex_);
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, device] : devices_) out[name] = device->arena().bytes();
  return out;
}

std::int64_t Session::held_bytes() {
  {
    FinishedLaunches finished_launches;  // destroyed after unlocking
    std::lock_guard lock(mutex_);
    finished_launches = drop_finished();
  }
  std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [name, device] : devices_) bytes += device->value_memory().current;
  return bytes;
}

}  // namespace karez::runtime
