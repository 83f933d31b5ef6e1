// Reports on a running session: waits, progress, events, times, the flight record.
#include <chrono>

#include "karez/base/log.h"
#include "karez/comm/host.h"
#include "karez/comm/peers.h"
#include "karez/runtime/agreement.h"
#include "karez/runtime/contention_monitor.h"
#include "karez/runtime/flight_record.h"
#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/source_reader.h"
#include "karez/runtime/worker.h"

namespace karez::runtime {

// Sends a query to all workers. Call with workers_mutex_ held.
std::shared_ptr<WorkerQuery> Session::ask_workers() {
  auto query = std::make_shared<WorkerQuery>();
  query->answers.resize(workers_.size());
  query->states.resize(workers_.size());
  query->mails.resize(workers_.size());
  query->missing = workers_.size();
  std::erase_if(queries_, [](const auto& old) {
    std::lock_guard lock(old->mutex);
    return old->missing == 0;
  });
  queries_.push_back(query);
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    query->mails[w].kind = Mail::Kind::query;
    query->mails[w].payload = query.get();
    workers_[w]->box().post(&query->mails[w]);
  }
  return query;
}

std::string Session::wait_graph() {
  std::lock_guard asking(workers_mutex_);
  if (workers_.empty()) return "no worker: no plan is loaded\n";
  const auto query = ask_workers();
  std::unique_lock lock(query->mutex);
  query->answered.wait_for(lock, std::chrono::milliseconds(500), [&] { return query->missing == 0; });
  std::lock_guard acting_lock(mutex_);  // the current act's plan cannot be freed meanwhile
  std::string text;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    text += cat("worker ", w, ":\n",
                query->answers[w].empty() ? cat("is inside ", workers_[w]->acting(), "\n") : query->answers[w]);
  }
  return text;
}

std::string Session::contention_text() {
  std::lock_guard asking(workers_mutex_);
  if (contention_monitor_ == nullptr || contention_monitor_->times() == 0) return "";
  return cat("cores: other programs ", contention_monitor_->crowded() ? "use" : "used", " them, so threads of a team ",
             contention_monitor_->crowded() ? "sleep while they wait for each other\n"
                                            : "slept while they waited for each other; now the cores are free\n");
}

RankState Session::state(bool waits, double most) {
  RankState out;
  out.progress = ops_.load(std::memory_order_relaxed);
  if (options_.peers != nullptr) out.progress += static_cast<std::uint64_t>(options_.peers->bytes_received());
  {
    std::lock_guard lock(mutex_);
    Counters counters;
    for (const auto& [number, loaded] : loaded_) count(*loaded, counters);
    for (const auto& loaded : unloading_plans_) count(*loaded, counters);
    out.progress += next_ticket_ + static_cast<std::uint64_t>(counters.acts + counters.messages);
    for (const auto& record : launches_)
      if (record->ended && !record->over)
        out.waits.push_back(
            {RankWait::others, cat("launch ", record->ticket, " has ended here, not yet on all ranks")});
  }
  if (awaiting_threads_.load() > 0)
    out.waits.push_back({RankWait::others, "all ranks must begin the op that this rank has begun"});
  if (const auto awaited_rank = options_.peers == nullptr ? std::nullopt : options_.peers->awaited())
    out.waits.push_back({*awaited_rank, "its connection"});
  if (waits) add_states(out, most);
  return out;
}

// Waits of collectives come first: they are more specific than a launch that has not ended. At most one query is open,
// however long a worker takes to answer.
void Session::add_states(RankState& out, double most) {
  // With a timeout, because a thread that stops the workers may be waiting for this one.
  const std::unique_lock asking(workers_mutex_, std::chrono::duration<double>(most));
  if (!asking || workers_.empty()) return;
  auto answered = [&] {
    std::lock_guard lock(state_query_->mutex);
    return state_query_->missing == 0;
  };
  if (state_query_ == nullptr || answered()) state_query_ = ask_workers();
  std::unique_lock lock(state_query_->mutex);
  state_query_->answered.wait_for(lock, std::chrono::duration<double>(most),
                                  [&] { return state_query_->missing == 0; });
  std::vector<RankWait> waits;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    RankState state = state_query_->states[w];
    if (state_query_->answers[w].empty()) {
      std::lock_guard acting_lock(mutex_);  // the current act's plan cannot be freed meanwhile
      state.current_call = workers_[w]->acting_in();
      state.can_progress = state.current_call.empty();
    }
    if (out.current_call.empty()) out.current_call = state.current_call;
    out.can_progress |= state.can_progress;
    waits.insert(waits.end(), state.waits.begin(), state.waits.end());
  }
  out.waits.insert(out.waits.begin(), waits.begin(), waits.end());
}

std::vector<EventLog> Session::events() const {
  std::vector<EventLog> logs;
  double rate = scale_.ns_per_tick();
  for (const auto& worker : workers_) {
    logs.push_back(worker->events());
    for (Event& event : logs.back().events) event.time = scale_.ns(event.time, rate);
  }
  return logs;
}

// The time spent up to the end of the launch on this rank. Called by worker 0 before the launch is over, so that the
// set of workers does not change.
RankTime Session::rank_time(const LaunchRecord& record) const {
  RankTime out;
  std::int64_t computing = 0, reading = 0;
  for (const auto& worker : workers_) {
    computing += worker->ticks(false);
    reading += worker->ticks(true);
  }
  const double second = 1e-9 * scale_.ns_per_tick();
  out[Phase::kernels] = static_cast<double>(computing) * second;
  out[Phase::source] = static_cast<double>(reading) * second + (reader_ == nullptr ? 0 : reader_->seconds());
  std::lock_guard lock(mutex_);
  out[Phase::host] = static_cast<double>(idle_) * second;
  out.work = record.loaded->work;
  return out;
}

// Called at the first failure, before it is reported to others.
void Session::record_flight(const Error& error, const RankState& state) {
  if (options_.flight.empty() || flight_recorded_.exchange(true)) return;
  const comm::Peers* peers = options_.peers;
  FlightRecord out;
  out.rank = peers == nullptr ? 0 : peers->rank();
  out.ranks = peers == nullptr ? 1 : peers->ranks();
  out.who = comm::this_process();
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
  if (const std::unique_lock asking(workers_mutex_, std::chrono::milliseconds(300)); asking) out.workers = events();
  try {
    write_flight_record(options_.flight, out);
  } catch (const std::exception& failure) {
    note(LogLevel::warning, "cannot write the flight record: ", failure.what());
  }
}

void Session::on_hang(const HangDiagnosis& diagnosis) {
  if (diagnosis.kind == HangDiagnosis::Kind::slow_call) return note(LogLevel::warning, diagnosis.text);
  const ErrorKind kind = diagnosis.kind == HangDiagnosis::Kind::unreachable ? ErrorKind::peer : ErrorKind::hang;
  agreement_->fail(Error(kind, diagnosis.text), diagnosis.rank < 0 ? std::nullopt : std::optional(diagnosis.rank));
}

}  // namespace karez::runtime
