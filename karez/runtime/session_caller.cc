// Lets the thread of a client do the work of worker 0, so that the two threads do not have to wake each other.
#include <utility>

#include "karez/runtime/launch/launch_table.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {
namespace {

// To wake a worker and to be woken by it takes 40 to 60 us on a virtual machine. The calling thread runs a launch if
// the program waited for the last launch of its plan within the first time, so that it had nothing else to do, and if
// that launch took at most the second time, because a thread that runs a launch does not notice an interrupt.
constexpr double soon_ns = 30'000, short_ns = 5'000'000;

}  // namespace

// Returns worker 0 if this thread may do its work. A pinned worker gets mails that bind the thread that opens them, and
// with other ranks the end of a launch may wait for the network.
Worker* Session::take_over() {
  if (options_.pin || control_ != nullptr) return nullptr;
  Worker* const worker = workers_->first();
  return worker->try_serve() ? worker : nullptr;
}

// The teams of another active launch must not run on this thread.
Worker* Session::take_over(const LaunchRecord& record) {
  const LoadedPlan& loaded = *record.loaded;
  if (!std::exchange(loaded.habit->awaited_soon, false)) return nullptr;
  if (!loaded.fits_caller || record.may_block || launches_->active() > 0) return nullptr;
  if (static_cast<double>(loaded.habit->ticks) * scale_.ns_per_tick() > short_ns) return nullptr;
  return take_over();
}

void Session::run_launch(Worker& worker, LaunchRecord& record) {
  worker.serve([&] {
    const std::lock_guard lock(mutex_);
    return record.over || launches_->active() > 1;
  });
  record.made_at = ticks();
}

void Session::note_wait(const LaunchRecord& record) {
  if (record.habit == nullptr || record.habit->awaited_soon) return;
  record.habit->awaited_soon = static_cast<double>(ticks() - record.made_at) * scale_.ns_per_tick() < soon_ns;
}

void Session::queue_variable_lock(std::shared_ptr<LaunchRecord> record) {
  FinishedLaunches finished_launches;  // destroyed after unlocking
  std::unique_lock lock(mutex_);
  require_open();
  finished_launches = drop_finished();
  Worker* const worker = take_over();
  queue(std::move(record), worker);
  lock.unlock();
  if (worker != nullptr) open_mail(*worker);
}

void Session::release_variable_lock(LaunchRecord& record) {
  std::unique_lock lock(mutex_);
  if (record.over) return;  // after a protocol error
  Worker* const worker = take_over();
  post(record.end, worker);
  lock.unlock();
  if (worker != nullptr) open_mail(*worker);
}

// Opens the mail of the worker. Runs no act.
void Session::open_mail(Worker& worker) {
  bool opened = false;
  worker.serve([&] { return std::exchange(opened, true); });
}

}  // namespace karez::runtime
