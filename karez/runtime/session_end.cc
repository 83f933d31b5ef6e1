// How a session ends: what is under way ends first, then the threads.
#include <algorithm>
#include <chrono>
#include <exception>

#include "karez/base/log.h"
#include "karez/runtime/agreement.h"
#include "karez/runtime/crowd_watch.h"
#include "karez/runtime/exit.h"
#include "karez/runtime/heart.h"
#include "karez/runtime/loaded.h"
#include "karez/runtime/reader.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker.h"

namespace karez::runtime {

Session::~Session() {
  finish(std::uncaught_exceptions() > 0 ? Ending::in_haste : Ending::well,
         "it ends its world, because something was thrown", {});
}

void Session::end(Ending how, const std::string& why) { finish(how, why, options_.while_waiting); }

void Session::finish(Ending how, const std::string& why, const std::function<void()>& meanwhile) {
  {
    std::lock_guard ending(ending_);
    if (!finished_) finish_once(how, why, meanwhile);
    finished_ = true;
  }
  forget_at_exit(*this);  // which waits for an exit that is about to end this one
}

void Session::finish_once(Ending how, const std::string& why, const std::function<void()>& meanwhile) {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  if (how == Ending::well) {
    if (agreement_ != nullptr) end_world(meanwhile);
  } else if (agreement_ != nullptr) {
    agreement_->fail(Error(why));
  } else {
    std::lock_guard lock(mutex_);
    break_launches(Error(why));
  }
  await_idle(meanwhile);
  if (how == Ending::well && ((failure_ && !failure_told_) || data_failure_))
    note(base::LogLevel::warning, "a launch failed whose results the program never asked for: ",
         failure_ ? failure_->what() : data_failure_->error.what());
  std::lock_guard loading(loading_);
  stop();
  heart_.reset();
  {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return in_agreement_ == 0; });
  }
  agreement_.reset();  // workers told it how launches ended
  options_.peers = nullptr;
}

// The heart beats meanwhile, so that a rank that stops before it comes here is named; nothing can be thrown any more.
void Session::end_world(const std::function<void()>& meanwhile) {
  struct Awaiting {
    std::atomic<int>& count;
    ~Awaiting() { --count; }
  } awaiting{awaiting_};
  ++awaiting_;
  std::uint64_t op = 0;
  try {
    op = agreement_->begin({.what = "the end of its world", .sets_nothing = true});
  } catch (const Error&) { return; }  // something has failed before, as the program has been told
  try {
    agreement_->await_begun(op, meanwhile);
  } catch (const Error& error) { note(base::LogLevel::warning, "at the end of its world: ", error.what()); }
}

// Until every launch made so far is over; what `meanwhile` throws ends the wait.
void Session::await_idle(const std::function<void()>& meanwhile) {
  const auto idle = [&] {
    return std::all_of(launches_.begin(), launches_.end(), [](const auto& record) { return record->over; });
  };
  std::unique_lock lock(mutex_);
  if (!meanwhile) return over_.wait(lock, idle);
  while (!over_.wait_for(lock, std::chrono::milliseconds(50), idle)) {
    lock.unlock();
    meanwhile();
    lock.lock();
  }
}

// What is under way completes without working, and what has not begun does not begin: with this error, where it has
// none of its own. Under the lock.
void Session::break_launches(const Error& error) {
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
  if (workers_.empty() || stopping_ || breaking_ != nullptr) return;
  breaking_ = std::make_unique<Breaking>();
  breaking_->error = error;
  for (const auto& [number, loaded] : loaded_) breaking_->plans.push_back(loaded);
  breaking_->plans.insert(breaking_->plans.end(), leaving_.begin(), leaving_.end());
  breaking_->mail.what = Mail::What::break_off;
  breaking_->mail.payload = breaking_.get();
  workers_[0]->box().post(&breaking_->mail);  // which knows of what plans launches are under way
}

void Session::check_open() const {
  std::lock_guard lock(mutex_);
  require_open();
}

void Session::require_open() const {
  require(!ended_, "this world has ended: nothing can be called, read or written in it any more");
}

}  // namespace karez::runtime
