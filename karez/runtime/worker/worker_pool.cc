// Starts, pins, queries and stops workers.
#include "karez/runtime/worker/worker_pool.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "karez/base/text.h"
#include "karez/device/cpu_budget.h"
#include "karez/plan/stream_assignment.h"

namespace karez::runtime {
namespace {

// Raises each `teams[worker]` to the size of the largest team of this plan's kernels on that worker. At most `workers`
// workers compute.
void note_teams(const Plan& plan, int workers, std::vector<int>& teams) {
  const auto worker_of_stream = assign_streams(plan, workers);
  for (const Actor& a : plan.actors) {
    int& largest = teams[static_cast<std::size_t>(worker_of_stream[a.stream])];
    for (const Call& c : a.calls) largest = std::max(largest, c.team);
  }
}

}  // namespace

WorkerPool::WorkerPool(WorkerOwner& owner, std::mutex& session_mutex, const Options& options)
    : owner_(owner),
      session_mutex_(session_mutex),
      options_(options) {
  const int cores = cpu_budget().cores;
  max_workers_ = options_.workers == 0 ? cores : std::min(options_.workers, cores);
  workers_.reserve(static_cast<std::size_t>(max_workers_) + 1);
}

// The assignment of actors to workers depends only on the plan and on the maximum number of workers, so the actors of a
// plan do not move when a later plan adds workers.
void WorkerPool::start(const Plan& plan, const std::function<void(Mailbox&)>& on_first) {
  int count = 1;
  bool teams = false;
  for (int worker : assign_streams(plan, max_workers_)) count = std::max(count, worker + 1);
  for (const Actor& a : plan.actors)
    for (const Call& c : a.calls) teams |= c.team > 1;
  std::lock_guard pool_lock(mutex_);
  std::lock_guard lock(session_mutex_);
  while (size() < count) {
    workers_.push_back(std::make_unique<Worker>(owner_, size(), options_.events));
    if (size() == 1) on_first(workers_[0]->box());
  }
  if (options_.pin) pin_workers(plan);
  if (teams && contention_monitor_ == nullptr)
    contention_monitor_ = std::make_unique<ContentionMonitor>(static_cast<int>(cpu_budget().cpus.size()));
  // A spinning worker could slow down the team of a kernel a thousandfold, or take a core from another worker.
  if (teams || count > cpu_budget().cores) options_.spin_microseconds = 0;
  for (auto& worker : workers_) worker->set_spin(options_.spin_microseconds);
}

// The team of a kernel inherits the cores of its worker. So a worker is bound to as many cores as its largest team has
// threads; if it were bound to one core, all threads of the team would share that core.
void WorkerPool::pin_workers(const Plan& plan) {
  teams_.resize(workers_.size(), 1);
  note_teams(plan, max_workers_, teams_);
  auto assigned = assign_cpus(cpu_budget().cpus, teams_);
  cpus_of_.resize(workers_.size());
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (cpus_of_[w] == assigned[w]) continue;
    cpus_of_[w] = assigned[w];
    auto& cpu_set = cpu_sets_.emplace_back(std::make_unique<CpuSet>());
    cpu_set->cpus = assigned[w];
    cpu_set->mail.kind = Mail::Kind::set_affinity;
    cpu_set->mail.payload = cpu_set.get();
    workers_[w]->box().post(&cpu_set->mail);
  }
}

void WorkerPool::stop(const std::function<void()>& drop_plans) {
  std::lock_guard lock(mutex_);
  for (auto& worker : workers_) worker->stop();
  reader_.reset();  // the reader posts to the workers' mailboxes, as the links of plans do until `drop_plans`
  drop_plans();
  workers_.clear();
  ++generation_;
  contention_monitor_.reset();
  queries_.clear();
  state_query_.reset();
  teams_.clear();
  cpus_of_.clear();
  cpu_sets_.clear();
}

std::vector<Mailbox*> WorkerPool::boxes() {
  std::vector<Mailbox*> out;
  for (auto& worker : workers_) out.push_back(&worker->box());
  return out;
}

SourceReader* WorkerPool::source_reader(const Plan& plan) {
  if (reader_ == nullptr &&
      std::any_of(plan.actors.begin(), plan.actors.end(), [](const Actor& a) { return a.body == BodyKind::input; }))
    reader_ = std::make_unique<SourceReader>();
  return reader_.get();
}

int WorkerPool::busy_threads(const Plan& plan) const {
  std::vector<int> teams(static_cast<std::size_t>(max_workers_) + 1, 0);
  note_teams(plan, max_workers_, teams);
  return std::accumulate(teams.begin(), teams.end(), 0);
}

// Sends a query to all workers. Call with mutex_ held.
std::shared_ptr<WorkerQuery> WorkerPool::query_workers() {
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

std::string WorkerPool::wait_graph() {
  std::lock_guard pool_lock(mutex_);
  if (workers_.empty()) return "no worker: no plan is loaded\n";
  const auto query = query_workers();
  std::unique_lock lock(query->mutex);
  query->answered.wait_for(lock, std::chrono::milliseconds(500), [&] { return query->missing == 0; });
  std::lock_guard session_lock(session_mutex_);  // so that the plans of current acts cannot be freed
  std::string text;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    text += cat("worker ", w, ":\n",
                query->answers[w].empty() ? cat("is inside ", workers_[w]->current_act(), "\n") : query->answers[w]);
  }
  return text;
}

// The waits of collectives come first, because they are more specific than the wait for the end of a launch. At most
// one query is open at a time, however long a worker takes to answer.
void WorkerPool::add_states(RankState& out, double max_seconds) {
  // The lock has a timeout, because a thread that stops the workers may be waiting for this thread.
  const std::unique_lock pool_lock(mutex_, std::chrono::duration<double>(max_seconds));
  if (!pool_lock || workers_.empty()) return;
  auto answered = [&] {
    std::lock_guard lock(state_query_->mutex);
    return state_query_->missing == 0;
  };
  if (state_query_ == nullptr || answered()) state_query_ = query_workers();
  std::unique_lock lock(state_query_->mutex);
  state_query_->answered.wait_for(lock, std::chrono::duration<double>(max_seconds),
                                  [&] { return state_query_->missing == 0; });
  std::vector<RankWait> waits;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    RankState state = state_query_->states[w];
    if (state_query_->answers[w].empty()) {
      std::lock_guard session_lock(session_mutex_);  // so that the plan of the current act cannot be freed
      state.current_call = workers_[w]->current_call();
      state.can_progress = state.current_call.empty();
    }
    if (out.current_call.empty()) out.current_call = state.current_call;
    out.can_progress |= state.can_progress;
    waits.insert(waits.end(), state.waits.begin(), state.waits.end());
  }
  out.waits.insert(out.waits.begin(), waits.begin(), waits.end());
}

std::string WorkerPool::contention_text() {
  std::lock_guard lock(mutex_);
  if (contention_monitor_ == nullptr || contention_monitor_->times() == 0) return "";
  return cat("cores: other programs ", contention_monitor_->crowded() ? "use" : "used",
             " the cores, so threads of a team ",
             contention_monitor_->crowded() ? "sleep while they wait for each other\n"
                                            : "slept while they waited for each other; now the cores are free\n");
}

std::vector<EventLog> WorkerPool::events() const {
  std::vector<EventLog> logs;
  for (const auto& worker : workers_) logs.push_back(worker->events());
  return logs;
}

std::optional<std::vector<EventLog>> WorkerPool::events_within(std::chrono::milliseconds timeout) {
  const std::unique_lock lock(mutex_, timeout);
  return lock ? std::optional(events()) : std::nullopt;
}

std::vector<EventLog> WorkerPool::events_since(PoolPosition& from, EventKinds kinds) {
  const std::lock_guard lock(mutex_);
  if (from.generation != generation_) from = {generation_, {}};
  from.workers.resize(workers_.size());
  std::vector<EventLog> logs;
  for (std::size_t i = 0; i < workers_.size(); ++i) logs.push_back(workers_[i]->events(from.workers[i], kinds));
  return logs;
}

PoolPosition WorkerPool::end_of_events() {
  const std::lock_guard lock(mutex_);
  PoolPosition out{generation_, {}};
  for (const auto& worker : workers_) out.workers.push_back(worker->end_of_events());
  return out;
}

std::int64_t WorkerPool::ticks(bool reading) const {
  std::int64_t out = 0;
  for (const auto& worker : workers_) out += worker->ticks(reading);
  return out;
}

}  // namespace karez::runtime
