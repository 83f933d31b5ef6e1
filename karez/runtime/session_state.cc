// Reports the waits, progress, events and times of a running session, and writes its flight record.
#include <chrono>

#include "karez/base/log.h"
#include "karez/comm/rendezvous/host.h"
#include "karez/comm/rendezvous/peers.h"
#include "karez/runtime/flight_record.h"
#include "karez/runtime/launch/launch_table.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {

std::string Session::wait_graph() { return workers_->wait_graph(); }
std::string Session::contention_text() { return workers_->contention_text(); }

RankState Session::state(bool waits, double max_seconds) {
  RankState out;
  out.progress = ops_.load(std::memory_order_relaxed);
  if (options_.peers != nullptr) out.progress += static_cast<std::uint64_t>(options_.peers->bytes_received());
  {
    std::lock_guard lock(mutex_);
    Counters counters;
    for (const auto& [number, loaded] : loaded_) count(*loaded, counters);
    for (const auto& loaded : unloading_plans_) count(*loaded, counters);
    out.progress += launches_->next_ticket() + static_cast<std::uint64_t>(counters.acts + counters.messages);
    for (const auto& record : launches_->records())
      if (record->ended && !record->over)
        out.waits.push_back(
            {RankWait::others, cat("launch ", record->ticket, " has ended here, but not yet on all ranks")});
  }
  if (awaiting_threads_.load() > 0)
    out.waits.push_back({RankWait::others, "all ranks must begin the op that this rank has begun"});
  if (const auto awaited_rank = options_.peers == nullptr ? std::nullopt : options_.peers->awaited())
    out.waits.push_back({*awaited_rank, "its connection"});
  if (options_.add_data_state) options_.add_data_state(out);
  if (waits) workers_->add_states(out, max_seconds);
  return out;
}

std::vector<EventLog> Session::events() const { return to_ns(workers_->events()); }

std::vector<EventLog> Session::to_ns(std::vector<EventLog> logs) const {
  const double rate = scale_.ns_per_tick();
  for (EventLog& log : logs)
    for (Event& event : log.events) event.time = scale_.ns(event.time, rate);
  return logs;
}

// Returns the time that this rank has spent in each phase up to the end of the launch. Called by worker 0 before the
// launch is over; until then the set of workers cannot change.
RankTime Session::rank_time(const LaunchRecord& record) const {
  RankTime out;
  const double seconds_per_tick = 1e-9 * scale_.ns_per_tick();
  out[Phase::kernels] = static_cast<double>(workers_->ticks(false)) * seconds_per_tick;
  out[Phase::source] = static_cast<double>(workers_->ticks(true)) * seconds_per_tick + workers_->reader_seconds();
  std::lock_guard lock(mutex_);
  out[Phase::host] = static_cast<double>(idle_clock_->idle(ticks())) * seconds_per_tick;
  out.work = record.loaded->work;
  return out;
}

// Writes the flight record of the first failure. Called before the failure is reported to other ranks.
void Session::record_flight(const Error& error, const RankState& state) {
  if (!options_.write_flight_record || flight_recorded_.exchange(true)) return;
  const comm::Peers* peers = options_.peers;
  FlightRecord out;
  out.rank = peers == nullptr ? 0 : peers->rank();
  out.ranks = peers == nullptr ? 1 : peers->ranks();
  out.process = comm::this_process();
  out.origin = origin_;
  out.failed_at = scale_.ns(ticks(), scale_.ns_per_tick());
  out.failure = error.what();
  out.state = state;
  {
    std::lock_guard lock(mutex_);
    auto add = [&](const LoadedPlan& loaded) {
      FlightPlan& plan = out.plans.emplace_back(FlightPlan{loaded.number, loaded.plan.name, {}});
      for (ActorId a : loaded.plan.actors.ids()) {
        const Actor& actor = loaded.plan.actor(a);
        plan.actors.push_back({a.index, actor.name, actor.collective ? actor.collective->where : actor.where});
      }
    };
    for (const auto& [number, loaded] : loaded_) add(*loaded);
    for (const auto& loaded : unloading_plans_) add(*loaded);
  }
  if (auto logs = workers_->events_within(std::chrono::milliseconds(300))) out.workers = to_ns(std::move(*logs));
  try {
    options_.write_flight_record(out);
  } catch (const std::exception& failure) {
    note(LogLevel::warning, "cannot write the flight record: ", failure.what());
  }
}

}  // namespace karez::runtime
