// Loads and unloads plans, and reloads the session.
#include <algorithm>

#include "karez/base/hash.h"
#include "karez/comm/rendezvous/peers.h"
#include "karez/device/cpu_budget.h"
#include "karez/runtime/exit.h"
#include "karez/runtime/launch/launch_queue.h"
#include "karez/runtime/launch/launch_table.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/load/plan_loader.h"
#include "karez/runtime/profile/event_recorder.h"
#include "karez/runtime/session.h"
#include "karez/runtime/session_thread.h"
#include "karez/runtime/variable_store.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {
namespace {

// Returns a hash that is equal on two ranks if they make the same calls on parts of the same sizes.
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

}  // namespace

// Calls end_at_exit with no lock of the session held: a concurrent exit holds the lock of the list of sessions while it
// waits for this load.
int Session::load(const Plan& plan, bool check_nan) {
  end_at_exit(*this);
  const int number = load_open(plan, check_nan);
  end_at_exit(*this);
  return number;
}

int Session::load_open(const Plan& plan, bool check_nan) {
  wait_idle();
  free_unloaded();
  verify(plan);
  std::lock_guard loading(load_mutex_);
  {
    std::lock_guard lock(mutex_);
    require_open();
  }
  // Launches may have failed on another rank before this rank had a worker.
  workers_->start(plan, [this](Mailbox& first_box) {
    for (auto& invalidated : invalidated_) first_box.post(&invalidated->mail);
  });
  LoadOptions options;
  options.kernels = kernels_;
  for (const auto& kernel : async_) options.async.push_back(kernel.get());
  options.device = [this](const PlanDevice& d) -> Device& { return device(d); };
  {
    std::lock_guard lock(mutex_);
    options.number = next_plan_;
  }
  options.max_workers = workers_->max_workers();
  options.in_flight = options_.in_flight;
  options.boxes = workers_->boxes();
  options.reader = workers_->source_reader(plan);
  options.slow_read =
      workers_->busy_threads(plan) < cpu_budget().cores ? slow_read_with_idle_core : slow_read_with_busy_cores;
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
  for (auto& worker_plan : loaded->worker_plans)
    if (worker_plan) workers_->box(worker_plan->worker).post(&worker_plan->attach);
  std::lock_guard lock(mutex_);
  for (const auto& recorder : recorders_) recorder->add_plan(next_plan_, loaded->plan);
  loaded_.emplace(next_plan_, std::move(loaded));
  if (!recorders_.empty()) time_calls();
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
    workers_->first_box()->post(
        &unloading_plans_.back()->unload);  // under the lock, so that the mail comes after the mails of all launches
  }
  free_unloaded();
  return true;
}

void Session::on_unloaded(LoadedPlan& loaded) {
  std::lock_guard lock(mutex_);
  loaded.unloaded = true;
}

// Called on threads of clients, because freeing a plan is slow and runs destructors of kernels.
void Session::free_unloaded() {
  std::vector<std::shared_ptr<LoadedPlan>> unloaded_plans;  // destroyed after unlocking
  FinishedLaunches finished_launches;                       // also destroyed after unlocking
  std::lock_guard lock(mutex_);
  auto first = std::stable_partition(unloading_plans_.begin(), unloading_plans_.end(),
                                     [](const auto& loaded) { return !loaded->unloaded; });
  for (auto at = first; at != unloading_plans_.end(); ++at) {
    count(**at, unloaded_counters_);
    unloaded_plans.push_back(std::move(*at));
  }
  unloading_plans_.erase(first, unloading_plans_.end());
  finished_launches = drop_finished();
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
  variables_ = std::make_unique<VariableStore>();
  launches_->clear();
  failures_.clear(true);
  flight_recorded_ = false;
  failure_reported_ = false;
  broken_ = false;
  stopping_ = false;
}

void Session::stop() {
  std::vector<std::shared_ptr<EventRecorder>> recorders;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    recorders = recorders_;
  }
  for (const auto& recorder : recorders) recorder->drain();  // the rings are destroyed
  workers_->stop([this] { drop_plans(); });
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
  std::lock_guard lock(mutex_);  // other threads may be reading the counters
  auto& device = devices_[device_name(d)];
  if (!device) device = make_device(device_name(d), d.kind);
  require(device->kind() == d.kind, "device ", device->name(), " is a ", device->kind(),
          ", but this plan uses it as a ", d.kind);
  return *device;
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

}  // namespace karez::runtime
