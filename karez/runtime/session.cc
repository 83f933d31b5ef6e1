// The functions of a session on its clients' threads: loading, launching, waiting, counting. Launches run on workers.
#include "karez/runtime/session.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "karez/base/hash.h"
#include "karez/base/suggest_names.h"
#include "karez/comm/peers.h"
#include "karez/device/cpu_budget.h"
#include "karez/plan/stream_assignment.h"
#include "karez/runtime/agreement.h"
#include "karez/runtime/contention_monitor.h"
#include "karez/runtime/exit.h"
#include "karez/runtime/failure.h"
#include "karez/runtime/heartbeat.h"
#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/plan_loader.h"
#include "karez/runtime/session_thread.h"
#include "karez/runtime/source_reader.h"
#include "karez/runtime/worker.h"

namespace karez::runtime {
namespace {

// Raises `teams`, by worker, to the largest team of this plan's kernels, if at most `workers` compute.
void note_teams(const Plan& plan, int workers, std::vector<int>& teams) {
  const auto dealt = assign_streams(plan, workers);
  for (const Actor& a : plan.actors) {
    int& largest = teams[static_cast<std::size_t>(dealt[a.stream])];
    for (const Call& c : a.calls) largest = std::max(largest, c.team);
  }
}

// Equal on two ranks that do the same calls on parts of the same size.
std::uint64_t work_of(const Plan& plan) {
  std::string text;
  for (const Actor& a : plan.actors) {
    for (const Call& c : a.calls)
      text += cat(c.kernel, c.out.empty() ? std::string() : cat(" ", c.out[0].view.type()), "\n");
    if (a.body == BodyKind::input)
      text += cat("input ", a.binding, " ", a.bound.empty() ? 0 : a.bound[0].view.count(), "\n");
  }
  return hash_text(text) | 1;
}

// The most threads that the plan's kernels keep busy.
int threads_of(const Plan& plan, int workers) {
  std::vector<int> teams(static_cast<std::size_t>(workers) + 1, 0);
  note_teams(plan, workers, teams);
  return std::accumulate(teams.begin(), teams.end(), 0);
}

}  // namespace

// ---- Launch

void Launch::wait() const { record_->session->wait(*record_); }
std::uint64_t Launch::ticket() const { return record_->ticket; }

bool Launch::done() const {
  std::lock_guard lock(record_->session->mutex_);
  return record_->over;
}

Result Launch::result(std::size_t i) const {
  require(i < values_->size(), "launch ", record_->ticket, " has ", values_->size(), " results; there is no result ",
          i);
  return {record_, (*values_)[i]};
}

std::optional<std::size_t> Launch::place_of(std::string_view name) const {
  const auto found =
      std::find_if(values_->begin(), values_->end(), [&](const auto& held) { return held->layout->name == name; });
  return found == values_->end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - values_->begin()));
}

Result Launch::result(std::string_view name) const {
  if (const auto place = place_of(name)) return result(*place);
  fail("launch ", record_->ticket, " has no output '", name, "'; ",
       suggest_names(name, *values_, [](const auto& held) { return held->layout->name; }));
}

std::vector<std::pair<std::string, HostArray>> Launch::outputs() const {
  wait();
  std::vector<std::pair<std::string, HostArray>> out;
  for (const auto& held : *values_) out.emplace_back(held->layout->name, gather_shards(*held));
  return out;
}

Launch Launch::without_results() const {
  static const auto none = std::make_shared<const DeviceValues>();
  return {record_, none};
}

// ---- Result

const TensorType& Result::type() const { return value_->layout->type; }
void Result::wait() const { record_->session->wait(*record_); }

bool Result::done() const {
  std::lock_guard lock(record_->session->mutex_);
  return record_->over;
}

HostArray Result::read() const {
  wait();
  return gather_shards(*value_);
}

std::vector<HostArray> Result::local() const {
  wait();
  return copy_shards(*value_);
}

std::shared_ptr<const std::byte> Result::bytes() const {
  wait();
  const ShardLayout::Shard& first = value_->layout->shards[0];
  if (first.view.shape != value_->layout->type.shape) return nullptr;
  return {value_, value_->memory[0].data()};
}

// ---- Session

// Objects of launches that are over, to be destroyed without the lock.
struct Session::FinishedLaunches {
  std::vector<std::vector<Feed>> feeds;
  std::vector<std::vector<std::shared_ptr<const DeviceValue>>> arrays;
  std::vector<std::vector<std::shared_ptr<LaunchRecord>>> producers;
  std::vector<std::shared_ptr<const DeviceValues>> outputs;
};

Session::Session(SessionOptions options, const KernelTable& kernels)
    : options_(options),
      origin_(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
                  .count()),
      kernels_(&kernels),
      variables_(std::make_unique<Variables>()) {
  int cores = cpu_budget().cores;
  require(options_.workers >= 0, "session with workers = ", options_.workers, ": must be at least 0");
  require(options_.in_flight >= 1 && options_.in_flight <= 1024, "session with in_flight = ", options_.in_flight,
          ": must be from 1 to 1024");
  require(options_.delays.max_microseconds >= 0, "session with delays of ", options_.delays.max_microseconds,
          " microseconds: must be at least 0");
  max_workers_ = options_.workers == 0 ? cores : std::min(options_.workers, cores);
  workers_.reserve(static_cast<std::size_t>(max_workers_) + 1);
  if (options_.peers != nullptr) join_ranks();
}

void Session::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  std::lock_guard asking(workers_mutex_);
  for (auto& worker : workers_) worker->stop();
  reader_.reset();  // it posts to workers' mailboxes; so do the links of plans when data arrives or a peer disconnects
  drop_plans();
  workers_.clear();
  contention_monitor_.reset();
  queries_.clear();
  state_query_.reset();
  teams_.clear();
  cpus_of_.clear();
  cpu_sets_.clear();
  invalidated_.clear();
}

void Session::drop_plans() {
  std::map<int, std::shared_ptr<LoadedPlan>> loaded;
  std::vector<std::shared_ptr<LoadedPlan>> unloading;
  std::lock_guard lock(mutex_);
  loaded.swap(loaded_);
  unloading.swap(unloading_plans_);
  launch_abort_.reset();
}

void Session::add(AsyncKernel kernel) { async_.push_back(std::make_unique<AsyncKernel>(std::move(kernel))); }

Device& Session::device(const PlanDevice& d) {
  std::lock_guard lock(mutex_);  // other threads may be counting
  auto& device = devices_[device_name(d)];
  if (!device) device = make_device(device_name(d), d.kind);
  require(device->kind() == d.kind, "device ", device->name(), " is a ", device->kind(),
          ", but this plan uses it as a ", d.kind);
  return *device;
}

// The assignment of actors to workers follows from the plan and the limit alone, so a plan's actors never move when a
// later plan adds workers.
void Session::start_workers(const Plan& plan) {
  int wanted = 1;
  bool teams = false;
  for (int worker : assign_streams(plan, max_workers_)) wanted = std::max(wanted, worker + 1);
  for (const Actor& a : plan.actors)
    for (const Call& c : a.calls) teams |= c.team > 1;
  std::lock_guard asking(workers_mutex_);
  std::lock_guard lock(mutex_);
  if (workers_.empty() && wanted > 0) {
    workers_.push_back(std::make_unique<Worker>(static_cast<WorkerOwner&>(*this), 0, options_.events));
    for (auto& told : invalidated_)
      workers_[0]->box().post(&told->mail);  // launches that failed on another rank before this one reached them
  }
  while (static_cast<int>(workers_.size()) < wanted)
    workers_.push_back(
        std::make_unique<Worker>(static_cast<WorkerOwner&>(*this), static_cast<int>(workers_.size()), options_.events));
  if (options_.pin) pin_workers(plan);
  if (teams && contention_monitor_ == nullptr)
    contention_monitor_ = std::make_unique<ContentionMonitor>(static_cast<int>(cpu_budget().cpus.size()));
  // A spinning worker would slow a kernel's team down a thousandfold, and would take a core from another worker.
  if (teams || wanted > cpu_budget().cores) options_.spin_microseconds = 0;
  for (auto& worker : workers_) worker->set_spin(options_.spin_microseconds);
}

// A kernel's team inherits its worker's cores, so a worker bound to one core would make its team share that core.
void Session::pin_workers(const Plan& plan) {
  teams_.resize(workers_.size(), 1);
  note_teams(plan, max_workers_, teams_);
  auto dealt = assign_cpus(cpu_budget().cpus, teams_);
  cpus_of_.resize(workers_.size());
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (cpus_of_[w] == dealt[w]) continue;
    cpus_of_[w] = dealt[w];
    auto& told = cpu_sets_.emplace_back(std::make_unique<CpuSet>());
    told->cpus = dealt[w];
    told->mail.kind = Mail::Kind::set_affinity;
    told->mail.payload = told.get();
    workers_[w]->box().post(&told->mail);
  }
}

// Takes no lock of the session: a concurrent exit, which holds the lock of the list of sessions, waits for this load.
int Session::load(const Plan& plan, bool check_nan) {
  end_at_exit(*this);
  const int number = load_now(plan, check_nan);
  end_at_exit(*this);
  return number;
}

int Session::load_now(const Plan& plan, bool check_nan) {
  wait_idle();
  free_unloaded();
  verify(plan);
  std::lock_guard loading(load_mutex_);
  {
    std::lock_guard lock(mutex_);
    require_open();
  }
  start_workers(plan);
  LoadOptions options;
  options.kernels = kernels_;
  for (const auto& kernel : async_) options.async.push_back(kernel.get());
  options.device = [this](const PlanDevice& d) -> Device& { return device(d); };
  {
    std::lock_guard lock(mutex_);
    options.number = next_plan_;
  }
  options.max_workers = max_workers_;
  options.in_flight = options_.in_flight;
  for (auto& worker : workers_) options.boxes.push_back(&worker->box());
  if (!reader_ &&
      std::any_of(plan.actors.begin(), plan.actors.end(), [](const Actor& a) { return a.body == BodyKind::input; }))
    reader_ = std::make_unique<SourceReader>();
  options.reader = reader_.get();
  options.slow_read =
      threads_of(plan, max_workers_) < cpu_budget().cores ? slow_read_with_idle_core : slow_read_with_busy_cores;
  options.poison = options_.poison;
  options.check_nan = options_.check_nan || check_nan;
  options.delays = options_.delays;
  options.order_arena_plans = options_.order_arena_plans;
  options.on_endpoint = options_.on_endpoint;
  if (options_.peers != nullptr) {
    options.connect = [this, program = links_of(plan)](int rank, const std::string& name, comm::Notifier& notifier) {
      constexpr int depth = 8;
      return options_.peers->connect(rank).open(hash_text(program + name), depth, notifier);
    };
  }
  auto loaded = prepare(plan, *variables_, options);
  loaded->work = work_of(plan);
  if (options_.peers != nullptr) loaded->invalidate = [this](std::uint64_t op) { invalidate(op); };
  for (auto& part : loaded->worker_plans)
    if (part) workers_[static_cast<std::size_t>(part->worker)]->box().post(&part->attach);
  std::lock_guard lock(mutex_);
  loaded_.emplace(next_plan_, std::move(loaded));
  return next_plan_++;
}

bool Session::unload(int plan) {
  if (is_forked_child()) return false;
  {
    std::lock_guard lock(mutex_);
    auto at = loaded_.find(plan);
    if (at == loaded_.end()) return false;
    unloading_plans_.push_back(std::move(at->second));
    loaded_.erase(at);
    workers_[0]->box().post(&unloading_plans_.back()->unload);  // under the lock: after the mail of all its launches
  }
  free_unloaded();
  return true;
}

void Session::on_unloaded(LoadedPlan& loaded) {
  std::lock_guard lock(mutex_);
  loaded.unloaded = true;
}

// Called by clients, because freeing a plan takes long and runs destructors of kernels.
void Session::free_unloaded() {
  std::vector<std::shared_ptr<LoadedPlan>> free;  // destroyed after unlocking
  FinishedLaunches spent;                         // likewise
  std::lock_guard lock(mutex_);
  auto first = std::stable_partition(unloading_plans_.begin(), unloading_plans_.end(),
                                     [](const auto& loaded) { return !loaded->unloaded; });
  for (auto at = first; at != unloading_plans_.end(); ++at) {
    count(**at, unloaded_counters_);
    free.push_back(std::move(*at));
  }
  unloading_plans_.erase(first, unloading_plans_.end());
  spent = drop_finished();
}

// Users hold the results that they still need. Called by clients, because freeing much memory would delay the worker.
Session::FinishedLaunches Session::drop_finished() {
  FinishedLaunches out;
  // After a failure a queued send to another rank may still read data that its launch was fed, until the links are
  // closed.
  if (broken() || (failure_ && options_.peers != nullptr)) return out;
  std::erase_if(launches_, [&](const auto& record) {
    if (!record->over) return false;
    out.feeds.push_back(std::move(record->feeds));
    out.arrays.push_back(std::move(record->arrays));
    out.producers.push_back(std::move(record->producers));
    out.outputs.push_back(std::move(record->outputs));
    return true;
  });
  return out;
}

int Session::plans() {
  free_unloaded();
  std::lock_guard lock(mutex_);
  return static_cast<int>(loaded_.size() + unloading_plans_.size());
}

std::shared_ptr<LoadedPlan> Session::find(int plan) const {
  std::lock_guard lock(mutex_);
  auto at = loaded_.find(plan);
  require(at != loaded_.end(), "no plan ", plan, " is loaded in this session");
  return at->second;
}

namespace {

// The index of the plan's input of this name.
std::size_t input_of(const LoadedPlan& loaded, std::string_view name) {
  for (std::size_t i = 0; i < loaded.inputs.size(); ++i)
    if (loaded.inputs[i].layout->name == name) return i;
  fail("plan '", loaded.plan.name, "' has no input '", name, "'; ",
       suggest_names(name, loaded.inputs, [](const PlanBinding& b) { return b.layout->name; }));
}

std::string line_of(const PlanBinding& input) { return input.where.empty() ? "" : cat(" (", input.where, ")"); }

}  // namespace

void Session::feed(LaunchRecord& record, const Feeds& feeds) const {
  const LoadedPlan& loaded = *record.loaded;
  record.feeds.resize(loaded.inputs.size());
  for (const auto& [name, feed] : feeds) {
    const std::size_t i = input_of(loaded, name);
    const TensorType& type = loaded.inputs[i].layout->type;
    require(feed.source != nullptr, "input '", name, "' is fed with a null source");
    require(feed.source->type() == type, "input '", name, "' is ", type, ", but is fed with ", feed.source->type(),
            line_of(loaded.inputs[i]));
    record.feeds[i] = feed;
  }
}

// A launch that takes the result of a running launch begins after that launch.
void Session::feed(LaunchRecord& record, const Results& arrays) {
  const LoadedPlan& loaded = *record.loaded;
  if (!arrays.empty()) record.arrays.resize(loaded.inputs.size());
  for (const auto& [name, array] : arrays) {
    const std::size_t i = input_of(loaded, name);
    const ShardLayout& wanted = *loaded.inputs[i].layout;
    require(array.value_ != nullptr, "input '", name, "' is fed with a null result");
    require(record.feeds[i].source == nullptr && record.arrays[i] == nullptr, "input '", name, "' is fed twice");
    const ShardLayout& given = *array.value_->layout;
    require(array.record_->session == this, "input '", name, "' is fed with a result of another session");
    require(given.type == wanted.type, "input '", name, "' is ", wanted.type, ", but is fed with ", given.type,
            line_of(loaded.inputs[i]));
    require(given.shards == wanted.shards, "input '", name, "' is read as ", print(wanted),
            ", but is fed with a result stored as ", print(given), line_of(loaded.inputs[i]));
    record.arrays[i] = array.value_;
    std::lock_guard lock(mutex_);
    const bool failed = array.record_->over && array.record_->error;
    // The other ranks may have made this launch already: it ends poisoned on all of them.
    if (!array.record_->over || (failed && record.op != 0)) record.producers.push_back(array.record_);
    else if (failed)
      throw Error(array.record_->error->kind,
                  cat("input '", name, "' is a result of a launch that failed: ", array.record_->error->what()),
                  array.record_->error->where);
  }
}

Launch Session::launch(int plan, const Feeds& feeds, const Results& arrays, std::uint64_t op) {
  try {
    return launch_here(plan, feeds, arrays, op);
  } catch (...) {
    if (op != 0) fail_ranks(current_error());  // the other ranks wait for this one
    throw;
  }
}

Launch Session::launch_here(int plan, const Feeds& feeds, const Results& arrays, std::uint64_t op) {
  check_open();
  const std::shared_ptr<LoadedPlan> held = find(plan);  // another thread may unload it meanwhile
  LoadedPlan& loaded = *held;
  auto record = std::make_shared<LaunchRecord>();
  record->session = this;
  record->loaded = &loaded;
  record->op = op;
  feed(*record, feeds);
  feed(*record, arrays);
  for (std::size_t i = 0; i < loaded.inputs.size(); ++i)
    require(record->feeds[i].source != nullptr || (!record->arrays.empty() && record->arrays[i] != nullptr), "input '",
            loaded.inputs[i].layout->name, "' (", loaded.inputs[i].layout->type, ") is not fed");
  auto outputs = std::make_shared<DeviceValues>();
  outputs->reserve(loaded.outputs.size());
  record->targets.reserve(2 * loaded.outputs.size());
  for (const PlanBinding& output : loaded.outputs) {
    outputs->push_back(std::make_shared<DeviceValue>(output.layout, options_.poison));
    for (const Memory& part : outputs->back()->memory) record->targets.push_back(part.data());
  }
  record->outputs = outputs;
  record->accesses = &loaded.accesses;

  FinishedLaunches over;  // destroyed after unlocking
  std::unique_lock lock(mutex_);
  over_.wait(lock, [&] { return has_capacity(); });
  require_open();
  require(loaded_.count(plan) > 0, "plan ", plan, " was unloaded before it could be launched");
  throw_failure(lock);
  if (data_failure_ && agreement_ == nullptr) throw_data_failure(lock);
  over = drop_finished();
  record->index = ++launched_;
  if (idle_since_ != 0 && active_launches() == 0) idle_ += ticks() - std::exchange(idle_since_, 0);
  queue(record);
  return {std::move(record), std::move(outputs)};
}

void Session::wait_for_capacity() {
  std::unique_lock lock(mutex_);
  wait_over(lock, [&] { return has_capacity(); });
  if (agreement_ != nullptr && !failure_ && data_failure_ && launched_ >= data_failure_->index + report_within)
    throw_data_failure(lock);
}

// With several ranks, launches made `report_within` launches ago must be over too, so that all ranks agree on whether
// they failed.
bool Session::has_capacity() const {
  return active_launches() < options_.in_flight &&
         (agreement_ == nullptr || std::all_of(launches_.begin(), launches_.end(), [&](const auto& record) {
            return record->over || record->index == 0 || record->index + report_within > launched_;
          }));
}

int Session::active_launches() const {
  return static_cast<int>(std::count_if(launches_.begin(), launches_.end(),
                                        [](const auto& record) { return record->loaded != nullptr && !record->over; }));
}

void Session::queue(std::shared_ptr<LaunchRecord> record) {
  record->session = this;
  record->ticket = record->loaded != nullptr ? next_ticket_++ : next_ticket_;  // a lock precedes the next launch
  record->mail.kind = Mail::Kind::launch;
  record->mail.payload = record.get();
  launches_.push_back(record);
  workers_[0]->box().post(&record->mail);  // under the lock, so that tickets are queued in order
}

void Session::queue_variable_lock(std::shared_ptr<LaunchRecord> record) {
  FinishedLaunches over;  // destroyed after unlocking
  std::lock_guard lock(mutex_);
  require_open();
  over = drop_finished();
  queue(std::move(record));
}

void Session::wait_idle() { await_idle({}); }

void Session::wait_all_launches() {
  std::unique_lock lock(mutex_);
  const std::uint64_t end = next_ticket_;
  wait_over(lock, [&] {
    return std::all_of(launches_.begin(), launches_.end(),
                       [&](const auto& record) { return record->over || record->ticket >= end; });
  });
}

void Session::reload() {
  wait_idle();
  std::lock_guard loading(load_mutex_);
  {
    std::lock_guard lock(mutex_);
    require_open();
  }
  stop();
  std::lock_guard lock(mutex_);
  unloaded_counters_ = {};
  variables_ = std::make_unique<Variables>();
  launches_.clear();
  failure_.reset();
  data_failure_.reset();
  failed_ticket_ = 0;
  flight_recorded_ = false;
  failure_reported_ = false;
  broken_ = false;
  stopping_ = false;
}

void Session::count(const LoadedPlan& loaded, Counters& c) const {
  c.messages += loaded.session_ports.messages.value();
  for (const auto& part : loaded.worker_plans) {
    if (!part) continue;
    c.acts += part->acts.value();
    c.messages += part->messages.value();
    for (const auto& [kind, bytes] : part->sent_bytes) c.sent_bytes[kind] += bytes.value();
  }
}

Counters Session::counters() {
  wait_idle();
  free_unloaded();
  std::lock_guard lock(mutex_);
  Counters c = unloaded_counters_;
  c.launches = launched_;
  c.workers = static_cast<int>(workers_.size());
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
    FinishedLaunches over;  // destroyed after unlocking
    std::lock_guard lock(mutex_);
    over = drop_finished();
  }
  std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [name, device] : devices_) bytes += device->value_memory().current;
  return bytes;
}

}  // namespace karez::runtime
