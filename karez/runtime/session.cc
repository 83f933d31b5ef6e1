// A session: what happens on the client's threads. The launches themselves run on workers.
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
#include "karez/runtime/crowd_watch.h"
#include "karez/runtime/exit.h"
#include "karez/runtime/failure.h"
#include "karez/runtime/heart.h"
#include "karez/runtime/loaded.h"
#include "karez/runtime/reader.h"
#include "karez/runtime/worker.h"

namespace karez::runtime {
namespace {

// By worker, where at most `workers` compute: the largest team of this plan's kernels, or what stood there.
void note_teams(const Plan& plan, int workers, std::vector<int>& teams) {
  const auto dealt = assign_streams(plan, workers);
  for (const Actor& a : plan.actors) {
    int& largest = teams[static_cast<std::size_t>(dealt[a.stream])];
    for (const Call& c : a.calls) largest = std::max(largest, c.team);
  }
}

// Equal where two ranks do the same calls on parts of the same size.
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

// How many threads its kernels keep busy at most.
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
  require(i < held_->size(), "launch ", record_->ticket, " has ", held_->size(), " results; there is no number ", i);
  return {record_, (*held_)[i]};
}

std::optional<std::size_t> Launch::place_of(std::string_view name) const {
  const auto found =
      std::find_if(held_->begin(), held_->end(), [&](const auto& held) { return held->spread->name == name; });
  return found == held_->end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - held_->begin()));
}

Result Launch::result(std::string_view name) const {
  if (const auto place = place_of(name)) return result(*place);
  fail("launch ", record_->ticket, " has no output '", name, "'; ",
       suggest_names(name, *held_, [](const auto& held) { return held->spread->name; }));
}

std::vector<std::pair<std::string, HostArray>> Launch::outputs() const {
  wait();
  std::vector<std::pair<std::string, HostArray>> out;
  for (const auto& held : *held_) out.emplace_back(held->spread->name, whole_of(*held));
  return out;
}

Launch Launch::without_results() const {
  static const auto none = std::make_shared<const HeldList>();
  return {record_, none};
}

// ---- Result

const TensorType& Result::type() const { return held_->spread->type; }
void Result::wait() const { record_->session->wait(*record_); }

bool Result::done() const {
  std::lock_guard lock(record_->session->mutex_);
  return record_->over;
}

HostArray Result::read() const {
  wait();
  return whole_of(*held_);
}

std::vector<HostArray> Result::local() const {
  wait();
  return parts_of(*held_);
}

std::shared_ptr<const std::byte> Result::bytes() const {
  wait();
  const Spread::Part& first = held_->spread->parts[0];
  if (first.view.shape != held_->spread->type.shape) return nullptr;
  return {held_, held_->memory[0].data()};
}

// ---- Session

// What launches that are over leave behind.
struct Session::Leftover {
  std::vector<std::vector<Feed>> feeds;
  std::vector<std::vector<std::shared_ptr<const Held>>> arrays;
  std::vector<std::vector<std::shared_ptr<LaunchRecord>>> after;
  std::vector<std::shared_ptr<const HeldList>> outputs;
};

Session::Session(SessionOptions options, const KernelTable& kernels)
    : options_(options),
      origin_(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
                  .count()),
      kernels_(&kernels),
      variables_(std::make_unique<Variables>()) {
  int cores = cpu_budget().cores;
  require(options_.workers >= 0, "a session of ", options_.workers, " workers");
  require(options_.in_flight >= 1 && options_.in_flight <= 1024, "a session with ", options_.in_flight,
          " launches in flight; 1 to 1024 are possible");
  require(options_.delays.most >= 0, "a session with delays of ", options_.delays.most, " microseconds");
  limit_ = options_.workers == 0 ? cores : std::min(options_.workers, cores);
  workers_.reserve(static_cast<std::size_t>(limit_) + 1);
  if (options_.peers != nullptr) join_ranks();
}

void Session::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  std::lock_guard asking(asking_);
  for (auto& worker : workers_) worker->stop();
  reader_.reset();  // it posts to workers' boxes, and so do the links of plans when something arrives or a peer goes
  drop_plans();
  workers_.clear();
  crowd_watch_.reset();
  inquiries_.clear();
  asked_.reset();
  teams_.clear();
  cpus_of_.clear();
  told_.clear();
  spoiled_.clear();
}

void Session::drop_plans() {
  std::map<int, std::shared_ptr<Loaded>> loaded;
  std::vector<std::shared_ptr<Loaded>> leaving;
  std::lock_guard lock(mutex_);
  loaded.swap(loaded_);
  leaving.swap(leaving_);
  breaking_.reset();
}

void Session::add(AsyncKernel kernel) { async_.push_back(std::make_unique<AsyncKernel>(std::move(kernel))); }

Device& Session::device(const PlanDevice& d) {
  std::lock_guard lock(mutex_);  // others may be counting
  auto& device = devices_[device_name(d)];
  if (!device) device = make_device(device_name(d), d.kind);
  require(device->kind() == d.kind, "device ", device->name(), " is a ", device->kind(),
          ", but this plan takes it for a ", d.kind);
  return *device;
}

// How actors are dealt out follows from the plan and the limit alone, so a plan's parts never move when a later plan
// brings more workers.
void Session::start_workers(const Plan& plan) {
  int wanted = 1;
  bool teams = false;
  for (int worker : assign_streams(plan, limit_)) wanted = std::max(wanted, worker + 1);
  for (const Actor& a : plan.actors)
    for (const Call& c : a.calls) teams |= c.team > 1;
  std::lock_guard asking(asking_);
  std::lock_guard lock(mutex_);
  if (workers_.empty() && wanted > 0) {
    workers_.push_back(std::make_unique<Worker>(*this, 0, options_.events));
    for (auto& told : spoiled_)
      workers_[0]->box().post(&told->mail);  // another rank has failed in what this one has not come to
  }
  while (static_cast<int>(workers_.size()) < wanted)
    workers_.push_back(std::make_unique<Worker>(*this, static_cast<int>(workers_.size()), options_.events));
  if (options_.pin) pin_workers(plan);
  if (teams && crowd_watch_ == nullptr)
    crowd_watch_ = std::make_unique<CrowdWatch>(static_cast<int>(cpu_budget().cpus.size()));
  // A spinning worker would slow a kernel's team down a thousandfold; and it would take a core from another worker.
  if (teams || wanted > cpu_budget().cores) options_.spin_microseconds = 0;
  for (auto& worker : workers_) worker->set_spin(options_.spin_microseconds);
}

// A kernel's team inherits its worker's cores, so one core would be shared by all of it.
void Session::pin_workers(const Plan& plan) {
  teams_.resize(workers_.size(), 1);
  note_teams(plan, limit_, teams_);
  auto dealt = assign_cpus(cpu_budget().cpus, teams_);
  cpus_of_.resize(workers_.size());
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (cpus_of_[w] == dealt[w]) continue;
    cpus_of_[w] = dealt[w];
    auto& told = told_.emplace_back(std::make_unique<CpuSet>());
    told->cpus = dealt[w];
    told->mail.what = Mail::What::bind;
    told->mail.payload = told.get();
    workers_[w]->box().post(&told->mail);
  }
}

// Without a lock of the session's: an exit meanwhile, which holds that of the list, waits for this load.
int Session::load(const Plan& plan, bool check_nan) {
  end_at_exit(*this);
  const int number = load_now(plan, check_nan);
  end_at_exit(*this);
  return number;
}

int Session::load_now(const Plan& plan, bool check_nan) {
  wait_idle();
  free_left();
  verify(plan);
  std::lock_guard loading(loading_);
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
  options.dealt_among = limit_;
  options.in_flight = options_.in_flight;
  for (auto& worker : workers_) options.boxes.push_back(&worker->box());
  if (!reader_ &&
      std::any_of(plan.actors.begin(), plan.actors.end(), [](const Actor& a) { return a.body == BodyKind::input; }))
    reader_ = std::make_unique<Reader>();
  options.reader = reader_.get();
  options.slow_read =
      threads_of(plan, limit_) < cpu_budget().cores ? slow_read_beside_free_core : slow_read_beside_teams;
  options.poison = options_.poison;
  options.check_nan = options_.check_nan || check_nan;
  options.delays = options_.delays;
  options.follow = options_.follow;
  options.links = options_.links;
  if (options_.peers != nullptr) {
    options.connect = [this, program = links_of(plan)](int rank, const std::string& name, comm::Notifier& notifier) {
      constexpr int depth = 8;
      return options_.peers->connect(rank).open(hash_text(program + name), depth, notifier);
    };
  }
  auto loaded = prepare(plan, *variables_, options);
  loaded->work = work_of(plan);
  if (options_.peers != nullptr) loaded->spoil = [this](std::uint64_t op) { spoil(op); };
  for (auto& part : loaded->parts)
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
    leaving_.push_back(std::move(at->second));
    loaded_.erase(at);
    workers_[0]->box().post(&leaving_.back()->unload);  // under the lock: behind the mail of every launch of it
  }
  free_left();
  return true;
}

void Session::left(Loaded& loaded) {
  std::lock_guard lock(mutex_);
  loaded.left = true;
}

// By a client: to free a plan takes long, and its kernels' state is not ours.
void Session::free_left() {
  std::vector<std::shared_ptr<Loaded>> free;  // emptied when the lock is open again, as is
  Leftover spent;                             // this
  std::lock_guard lock(mutex_);
  auto first =
      std::stable_partition(leaving_.begin(), leaving_.end(), [](const auto& loaded) { return !loaded->left; });
  for (auto at = first; at != leaving_.end(); ++at) {
    count(**at, gone_);
    free.push_back(std::move(*at));
  }
  leaving_.erase(first, leaving_.end());
  spent = drop_finished();
}

// Whoever still wants a launch's results holds them. By clients, as to free much would hold up the worker.
Session::Leftover Session::drop_finished() {
  Leftover out;
  // After a failure a send to another rank may still wait in a queue, and read what its launch was fed: until the links
  // are gone.
  if (broken() || (failure_ && options_.peers != nullptr)) return out;
  std::erase_if(launches_, [&](const auto& record) {
    if (!record->over) return false;
    out.feeds.push_back(std::move(record->feeds));
    out.arrays.push_back(std::move(record->arrays));
    out.after.push_back(std::move(record->after));
    out.outputs.push_back(std::move(record->outputs));
    return true;
  });
  return out;
}

int Session::plans() {
  free_left();
  std::lock_guard lock(mutex_);
  return static_cast<int>(loaded_.size() + leaving_.size());
}

std::shared_ptr<Loaded> Session::find(int plan) const {
  std::lock_guard lock(mutex_);
  auto at = loaded_.find(plan);
  require(at != loaded_.end(), "no plan ", plan, " is loaded in this session");
  return at->second;
}

namespace {

// The number of the plan's input of this name.
std::size_t input_of(const Loaded& loaded, std::string_view name) {
  for (std::size_t i = 0; i < loaded.inputs.size(); ++i)
    if (loaded.inputs[i].spread->name == name) return i;
  fail("plan '", loaded.plan.name, "' has no input '", name, "'; ",
       suggest_names(name, loaded.inputs, [](const Binding& b) { return b.spread->name; }));
}

std::string line_of(const Binding& input) { return input.where.empty() ? "" : cat(" (", input.where, ")"); }

}  // namespace

void Session::feed(LaunchRecord& record, const Feeds& feeds) const {
  const Loaded& loaded = *record.loaded;
  record.feeds.resize(loaded.inputs.size());
  for (const auto& [name, feed] : feeds) {
    const std::size_t i = input_of(loaded, name);
    const TensorType& type = loaded.inputs[i].spread->type;
    require(feed.source != nullptr, "input '", name, "' is fed with nothing");
    require(feed.source->type() == type, "input '", name, "' is ", type, ", but is fed with ", feed.source->type(),
            line_of(loaded.inputs[i]));
    record.feeds[i] = feed;
  }
}

// A result whose launch is over is there; of one under way the launch comes first.
void Session::feed(LaunchRecord& record, const Results& arrays) {
  const Loaded& loaded = *record.loaded;
  if (!arrays.empty()) record.arrays.resize(loaded.inputs.size());
  for (const auto& [name, array] : arrays) {
    const std::size_t i = input_of(loaded, name);
    const Spread& wanted = *loaded.inputs[i].spread;
    require(array.held_ != nullptr, "input '", name, "' is fed with nothing");
    require(record.feeds[i].source == nullptr && record.arrays[i] == nullptr, "input '", name, "' is fed twice");
    const Spread& given = *array.held_->spread;
    require(array.record_->session == this, "input '", name, "' is fed with a result of another session");
    require(given.type == wanted.type, "input '", name, "' is ", wanted.type, ", but is fed with ", given.type,
            line_of(loaded.inputs[i]));
    require(given.parts == wanted.parts, "input '", name, "' is read as ", print(wanted),
            ", but is fed with a result that lies as ", print(given), line_of(loaded.inputs[i]));
    record.arrays[i] = array.held_;
    std::lock_guard lock(mutex_);
    const bool failed = array.record_->over && array.record_->error;
    // The other ranks may make theirs: it ends poisoned on all of them.
    if (!array.record_->over || (failed && record.op != 0)) record.after.push_back(array.record_);
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
    if (op != 0) fail_ranks(thrown());  // the others wait for this rank
    throw;
  }
}

Launch Session::launch_here(int plan, const Feeds& feeds, const Results& arrays, std::uint64_t op) {
  check_open();
  const std::shared_ptr<Loaded> held = find(plan);  // somebody may unload it meanwhile
  Loaded& loaded = *held;
  auto record = std::make_shared<LaunchRecord>();
  record->session = this;
  record->loaded = &loaded;
  record->op = op;
  feed(*record, feeds);
  feed(*record, arrays);
  for (std::size_t i = 0; i < loaded.inputs.size(); ++i)
    require(record->feeds[i].source != nullptr || (!record->arrays.empty() && record->arrays[i] != nullptr), "input '",
            loaded.inputs[i].spread->name, "' (", loaded.inputs[i].spread->type, ") is not fed");
  auto outputs = std::make_shared<HeldList>();
  outputs->reserve(loaded.outputs.size());
  record->targets.reserve(2 * loaded.outputs.size());
  for (const Binding& output : loaded.outputs) {
    outputs->push_back(std::make_shared<Held>(output.spread, options_.poison));
    for (const Memory& part : outputs->back()->memory) record->targets.push_back(part.data());
  }
  record->outputs = outputs;
  record->touches = &loaded.touches;

  Leftover over;  // gone after the lock
  std::unique_lock lock(mutex_);
  over_.wait(lock, [&] { return has_room(); });
  require_open();
  require(loaded_.count(plan) > 0, "plan ", plan, " was unloaded while it was to be launched");
  throw_failure(lock);
  if (data_failure_ && agreement_ == nullptr) tell(lock);
  over = drop_finished();
  record->index = ++launched_;
  if (idle_since_ != 0 && under_way() == 0) idle_ += ticks() - std::exchange(idle_since_, 0);
  queue(record);
  return {std::move(record), std::move(outputs)};
}

void Session::wait_for_room() {
  std::unique_lock lock(mutex_);
  wait_over(lock, [&] { return has_room(); });
  if (agreement_ != nullptr && !failure_ && data_failure_ && launched_ >= data_failure_->index + told_within)
    tell(lock);
}

// With several ranks, launches that were made so long ago are over too: all ranks know alike whether they failed.
bool Session::has_room() const {
  return under_way() < options_.in_flight &&
         (agreement_ == nullptr || std::all_of(launches_.begin(), launches_.end(), [&](const auto& record) {
            return record->over || record->index == 0 || record->index + told_within > launched_;
          }));
}

int Session::under_way() const {
  return static_cast<int>(std::count_if(launches_.begin(), launches_.end(),
                                        [](const auto& record) { return record->loaded != nullptr && !record->over; }));
}

void Session::queue(std::shared_ptr<LaunchRecord> record) {
  record->session = this;
  record->ticket = record->loaded != nullptr ? next_ticket_++ : next_ticket_;  // a turn stands before the next launch
  record->mail.what = Mail::What::launch;
  record->mail.payload = record.get();
  launches_.push_back(record);
  workers_[0]->box().post(&record->mail);  // under the lock: tickets are queued in their order
}

void Session::queue_turn(std::shared_ptr<LaunchRecord> record) {
  Leftover over;  // gone after the lock
  std::lock_guard lock(mutex_);
  require_open();
  over = drop_finished();
  queue(std::move(record));
}

void Session::wait_idle() { await_idle({}); }

void Session::wait_launched() {
  std::unique_lock lock(mutex_);
  const std::uint64_t end = next_ticket_;
  wait_over(lock, [&] {
    return std::all_of(launches_.begin(), launches_.end(),
                       [&](const auto& record) { return record->over || record->ticket >= end; });
  });
}

void Session::reload() {
  wait_idle();
  std::lock_guard loading(loading_);
  {
    std::lock_guard lock(mutex_);
    require_open();
  }
  stop();
  std::lock_guard lock(mutex_);
  gone_ = {};
  variables_ = std::make_unique<Variables>();
  launches_.clear();
  failure_.reset();
  data_failure_.reset();
  failed_ticket_ = 0;
  recorded_ = false;
  failure_told_ = false;
  broken_ = false;
  stopping_ = false;
}

void Session::count(const Loaded& loaded, Counters& c) const {
  c.messages += loaded.session_ports.messages.value();
  for (const auto& part : loaded.parts) {
    if (!part) continue;
    c.acts += part->acts.value();
    c.messages += part->messages.value();
    for (const auto& [kind, bytes] : part->sent_bytes) c.sent_bytes[kind] += bytes.value();
  }
}

Counters Session::counters() {
  wait_idle();
  free_left();
  std::lock_guard lock(mutex_);
  Counters c = gone_;
  c.launches = launched_;
  c.workers = static_cast<int>(workers_.size());
  for (const auto& [number, loaded] : loaded_) count(*loaded, c);
  for (const auto& loaded : leaving_) count(*loaded, c);
  for (const auto& [name, device] : devices_) {
    c.peak_bytes[name] = device->memory().peak;
    c.held_bytes[name] = device->value_memory().current;
  }
  return c;
}

std::map<std::string, std::int64_t> Session::arena_bytes() {
  free_left();
  std::lock_guard lock(mutex_);
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, device] : devices_) out[name] = device->arena().bytes();
  return out;
}

std::int64_t Session::held_bytes() {
  {
    Leftover over;  // gone after the lock
    std::lock_guard lock(mutex_);
    over = drop_finished();
  }
  std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [name, device] : devices_) bytes += device->value_memory().current;
  return bytes;
}

}  // namespace karez::runtime
