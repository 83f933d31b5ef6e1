// The end of a session: first running launches end, then the threads.
#include <algorithm>
#include <chrono>
#include <exception>

#include "karez/base/log.h"
#include "karez/runtime/agreement.h"
#include "karez/runtime/contention_monitor.h"
#include "karez/runtime/exit.h"
#include "karez/runtime/heartbeat.h"
#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/source_reader.h"
#include "karez/runtime/worker.h"

namespace karez::runtime {

Session::~Session() {
  finish(std::uncaught_exceptions() > 0 ? ShutdownMode::immediate : ShutdownMode::graceful,
         "it ends its world, because an exception was thrown", {});
}

void Session::end(ShutdownMode how, const std::string& why) { finish(how, why, options_.while_waiting); }

void Session::finish(ShutdownMode how, const std::string& why, const std::function<void()>& while_waiting) {
  {
    std::lock_guard ending(end_mutex_);
    if (!finished_) finish_once(how, why, while_waiting);
    finished_ = true;
  }
  forget_at_exit(*this);  // waits for an exit that is about to end this session
}

void Session::finish_once(ShutdownMode how, const std::string& why, const std::function<void()>& while_waiting) {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  if (how == ShutdownMode::graceful) {
    if (agreement_ != nullptr) end_world(while_waiting);
  } else if (agreement_ != nullptr) {
    agreement_->fail(Error(why));
  } else {
    std::lock_guard lock(mutex_);
    abort_launches(Error(why));
  }
  await_idle(while_waiting);
  if (how == ShutdownMode::graceful && ((failure_ && !failure_reported_) || data_failure_))
    note(base::LogLevel::warning, "a launch failed, but the program never used its results: ",
         failure_ ? failure_->what() : data_failure_->error.what());
  std::lock_guard loading(load_mutex_);
  stop();
  heartbeat_.reset();
  {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return in_agreement_ == 0; });
  }
  agreement_.reset();  // after the workers, which report ends of launches to it
  options_.peers = nullptr;
}

// Heartbeats continue meanwhile, so that a rank that stops before this point is named. Failures are logged, not thrown.
void Session::end_world(const std::function<void()>& while_waiting) {
  struct Awaiting {
    std::atomic<int>& count;
    ~Awaiting() { --count; }
  } awaiting{awaiting_threads_};
  ++awaiting_threads_;
  std::uint64_t op = 0;
  try {
    op = agreement_->begin({.what = "the end of its world", .is_barrier = true});
  } catch (const Error&) { return; }  // an earlier failure, which was reported to the program
  try {
    agreement_->await_begun(op, while_waiting);
  } catch (const Error& error) { note(base::LogLevel::warning, "at the end of its world: ", error.what()); }
}

// Waits until every launch made so far is over; an exception from `while_waiting` ends the wait.
void Session::await_idle(const std::function<void()>& while_waiting) {
  const auto idle = [&] {
    return std::all_of(launches_.begin(), launches_.end(), [](const auto& record) { return record->over; });
  };
  std::unique_lock lock(mutex_);
  if (!while_waiting) return over_.wait(lock, idle);
  while (!over_.wait_for(lock, std::chrono::milliseconds(50), idle)) {
    lock.unlock();
    while_waiting();
    lock.lock();
  }
}

// Running launches complete without running kernels, and waiting launches do not begin; they get this error unless they
// have their own. Call with the lock held.
void Session::abort_launches(const Error& error) {
  std::uint64_t first = next_ticket_;
  bool any = false;
  for (const auto& record : launches_) {
    if (record->over || record->loaded == nullptr) continue;
    any = true;
    first = std::min(first, record->ticket);
  }
  if (any || options_.peers != nullptr) {
    failure_ = error;
    failed_ticket_ = failed_ticket_ == 0 ? first - 1 : std::min(failed_ticket_, first - 1);
  }
  if (workers_.empty() || stopping_ || launch_abort_ != nullptr) return;
  launch_abort_ = std::make_unique<LaunchAbort>();
  launch_abort_->error = error;
  for (const auto& [number, loaded] : loaded_) launch_abort_->plans.push_back(loaded);
  launch_abort_->plans.insert(launch_abort_->plans.end(), unloading_plans_.begin(), unloading_plans_.end());
  launch_abort_->mail.kind = Mail::Kind::abort_launches;
  launch_abort_->mail.payload = launch_abort_.get();
  workers_[0]->box().post(&launch_abort_->mail);  // worker 0 knows which plans have running launches
}

void Session::check_open() const {
  std::lock_guard lock(mutex_);
  require_open();
}

void Session::require_open() const {
  require(!ended_, "this world has ended: nothing can be called, read or written in it any more");
}

}  // namespace karez::runtime
