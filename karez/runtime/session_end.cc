// Ends a session: first its running launches, then its threads.
#include <algorithm>
#include <chrono>
#include <exception>

#include "karez/base/log.h"
#include "karez/runtime/control.h"
#include "karez/runtime/exit.h"
#include "karez/runtime/launch/launch_queue.h"
#include "karez/runtime/launch/launch_table.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/variable_store.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {

Session::~Session() {
  finish(std::uncaught_exceptions() > 0 ? ShutdownMode::immediate : ShutdownMode::graceful,
         "it ends its world, because an exception was thrown", {});
}

void Session::end(ShutdownMode mode, const std::string& reason) { finish(mode, reason, options_.while_waiting); }

void Session::finish(ShutdownMode mode, const std::string& reason, const std::function<void()>& while_waiting) {
  {
    std::lock_guard ending(end_mutex_);
    if (!finished_) finish_once(mode, reason, while_waiting);
    finished_ = true;
  }
  forget_at_exit(*this);  // waits if an exit of the process is ending this session
}

void Session::finish_once(ShutdownMode mode, const std::string& reason, const std::function<void()>& while_waiting) {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  if (mode == ShutdownMode::graceful) {
    if (control_ != nullptr) end_world(while_waiting);
  } else if (control_ != nullptr) {
    control_->fail(Error(reason));
  } else {
    std::lock_guard lock(mutex_);
    abort_launches(Error(reason));
  }
  await_idle(while_waiting);
  const auto& failure = failures_.failure();
  const auto& data_failure = failures_.data_failure();
  if (mode == ShutdownMode::graceful && ((failure && !failure_reported_) || data_failure))
    note(base::LogLevel::warning, "a launch failed, but the program never used its results: ",
         failure ? failure->what() : data_failure->error.what());
  end_recorders();
  std::lock_guard loading(load_mutex_);
  stop();
  if (control_ != nullptr) control_->stop_heartbeat();
  {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return control_users_ == 0; });
  }
  control_.reset();  // after the workers, which report ends of launches to it
  options_.peers = nullptr;
}

// Heartbeats continue during the wait, so that a rank that stops before this point is reported. Failures are logged,
// not thrown.
void Session::end_world(const std::function<void()>& while_waiting) {
  struct CountDown {
    std::atomic<int>& count;
    ~CountDown() { --count; }
  } count_down{awaiting_threads_};
  ++awaiting_threads_;
  std::uint64_t op = 0;
  try {
    op = control_->begin({.what = "the end of its world", .is_barrier = true});
  } catch (const Error&) { return; }  // an earlier failure, which was reported to the program
  try {
    control_->await_begun(op, while_waiting);
  } catch (const Error& error) { note(base::LogLevel::warning, "at the end of its world: ", error.what()); }
}

// Waits until every launch made so far is over; an exception from `while_waiting` ends the wait.
void Session::await_idle(const std::function<void()>& while_waiting) {
  const auto idle = [&] { return launches_->all_over(); };
  std::unique_lock lock(mutex_);
  if (!while_waiting) return over_.wait(lock, idle);
  while (!over_.wait_for(lock, std::chrono::milliseconds(50), idle)) {
    lock.unlock();
    while_waiting();
    lock.lock();
  }
}

// Aborts all launches: running launches complete without running further kernels, and waiting launches do not begin.
// Each gets this error unless it already has one. Call with the lock held.
void Session::abort_launches(const Error& error) {
  std::uint64_t first = launches_->next_ticket();
  bool any_active = false;
  for (const auto& record : launches_->records()) {
    if (record->over || record->loaded == nullptr) continue;
    any_active = true;
    first = std::min(first, record->ticket);
  }
  if (any_active || options_.peers != nullptr) failures_.set_abort(error, first);
  if (stopping_ || launch_abort_ != nullptr) return;
  Mailbox* first_box = workers_->first_box();
  if (first_box == nullptr) return;
  launch_abort_ = std::make_unique<LaunchAbort>();
  launch_abort_->error = error;
  for (const auto& [number, loaded] : loaded_) launch_abort_->plans.push_back(loaded);
  launch_abort_->plans.insert(launch_abort_->plans.end(), unloading_plans_.begin(), unloading_plans_.end());
  launch_abort_->mail.kind = Mail::Kind::abort_launches;
  launch_abort_->mail.payload = launch_abort_.get();
  first_box->post(&launch_abort_->mail);  // worker 0 knows which plans have running launches
}

void Session::check_open() const {
  std::lock_guard lock(mutex_);
  require_open();
}

void Session::require_open() const {
  require(!ended_, "this world has ended: nothing can be called, read or written in it any more");
}

}  // namespace karez::runtime
