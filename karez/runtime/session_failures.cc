// Ends of launches and recovery from failures.
//
// A launch that failed before it wrote a variable is a data failure and changes nothing: its tokens have been returned,
// and no variable has changed. Later launches of its plan are poisoned until the error is reported to the program, by a
// wait that throws or by the next launch; then launches run again. After any other failure (a launch that failed after
// it had written variables, a broken link, a lost rank) the session cannot be used until `reload`.
#include <algorithm>

#include "karez/runtime/agreement.h"
#include "karez/runtime/failure.h"
#include "karez/runtime/launch_queue.h"
#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker.h"

namespace karez::runtime {

void Session::finished(LaunchRecord& record) {
  LaunchEnd end;
  RankTime spending;
  if (agreement_ == nullptr && record.error) record_flight(*record.error, {});
  if (record.op != 0) spending = rank_time(record);
  {
    std::lock_guard lock(mutex_);
    if (record.over) return;  // it got its error when the session broke
    record.ended = true;
    end = {record.error, record.skipped, record.wrote};
    if (record.op == 0 || aborted_) {
      if (record.loaded != nullptr) record_outcome(record, end);
      if (aborted_ && record.op != 0) record.error = abort_error(record);
      record.over = true;
      over_.notify_all();
      return;
    }
  }
  if (end.error && record.plan_unusable) agreement_->fail(*end.error);
  else agreement_->end(record.op, spending, end);
}

// Stores the outcome of a launch in its record and in the session. Call with the lock held.
void Session::record_outcome(LaunchRecord& record, const LaunchEnd& end) {
  // It is skipped too if it did not begin because of an earlier failure.
  const bool skipped = !end.error && (end.skipped || (failure_ && record.number < 0));
  if (!end.error && !skipped) return;
  if (end.error) {
    if (!record.error) record.error = end.error;
    if (end.wrote)
      record.error = Error(record.error->kind, cat(record.error->what(), torn_text()), record.error->where);
  }
  record.skipped = skipped;
  if (skipped && !record.error) record.error = skipped_error(record);
  if (end.wrote || record.plan_unusable || broken()) {
    if (!failure_ || record.ticket < failed_ticket_) failure_ = record.error, failed_ticket_ = record.ticket;
  } else if (end.error && !failure_ && (!data_failure_ || record.ticket < data_failure_->ticket)) {
    data_failure_ = DataFailure{*record.error, record.ticket, record.index};
  } else if (skipped && !failure_ && !data_failure_ && agreement_ == nullptr) {  // due to a failure reported earlier
    data_failure_ = DataFailure{*record.error, record.ticket, record.index};
  }
}

Error Session::skipped_error(const LaunchRecord& record) const {
  if (failure_) return unusable_error(cat("launch ", record.ticket, " did not run: "));
  std::optional<Error> first;
  if (data_failure_) first = data_failure_->error;
  for (const auto& producer : record.producers)
    if (!first && producer->error) first = producer->error;
  if (!first) return Error(cat("launch ", record.ticket, " did not run, because an earlier launch failed"));
  return {first->kind, cat("launch ", record.ticket, " did not run, because an earlier launch failed: ", first->what()),
          first->where};
}

bool Session::rejects(const LaunchRecord& record) const {
  std::lock_guard lock(mutex_);
  return broken() || (failure_ && record.ticket > failed_ticket_);
}

bool Session::producer_failed(const LaunchRecord& record) const {
  if (record.producers.empty()) return false;
  std::lock_guard lock(mutex_);
  return std::any_of(record.producers.begin(), record.producers.end(),
                     [](const auto& producer) { return producer->error || producer->skipped; });
}

void Session::invalidated(std::uint64_t op, bool on_all_ranks) {
  std::unique_lock lock(mutex_);
  if (stopping_) return;
  InvalidatedOp& told = *invalidated_.emplace_back(std::make_unique<InvalidatedOp>());
  told.op = op;
  told.on_all_ranks = on_all_ranks;
  told.mail.kind = Mail::Kind::invalidate;
  told.mail.payload = &told;
  if (!workers_.empty()) {
    workers_[0]->box().post(&told.mail);
    return;
  }
  lock.unlock();  // worker 0 is notified when the first plan is loaded; other ranks wait for this one now
  if (!on_all_ranks) invalidate(op);
}

// Called by the agreement when a launch has ended on all ranks. A failure on some ranks has the same outcome on all.
void Session::ended(std::uint64_t op, const LaunchEnd& end) {
  std::lock_guard lock(mutex_);
  for (auto& record : launches_) {
    if (record->op != op || !record->ended) continue;
    record_outcome(*record, end);
    record->over = true;
  }
  if (active_launches() == 0) idle_since_ = ticks();
  over_.notify_all();
}

void Session::grant(LaunchRecord& record) {
  std::lock_guard lock(mutex_);
  record.granted = true;
  over_.notify_all();
}

bool Session::failed() const {
  std::lock_guard lock(mutex_);
  return failure_.has_value() || left_ranks_;
}

Error Session::unusable_error(std::string_view text) const {
  return {failure_->kind,
          cat(text, "the state of this session is unusable, because a launch failed (", failure_->what(),
              "); reset the world"),
          failure_->where};
}

void Session::on_protocol_error(const Error& why) {
  record_flight(why, {});
  std::lock_guard lock(mutex_);
  broken_ = true;
  for (auto& record : launches_) {
    if (record->over) continue;
    std::lock_guard record_lock(record->mutex);
    if (!record->error)
      record->error = Error(why.kind, cat("launch ", record->ticket, " was aborted: ", why.what()), why.where);
    record->over = true;
  }
  if (!failure_) failure_ = why;
  over_.notify_all();
}

// This rank may only have seen a link end: waits for the first failure of all ranks. Call with the lock held.
void Session::throw_failure(std::unique_lock<std::mutex>& lock) {
  if (failure_ && agreement_ != nullptr) over_.wait_for(lock, std::chrono::seconds(2), [&] { return aborted_; });
  if (!failure_) return;
  failure_reported_ = true;
  throw unusable_error("");
}

// Throws a data failure that no wait has thrown yet. Call with the lock held.
void Session::throw_data_failure(std::unique_lock<std::mutex>& lock) {
  const Error error = data_failure_->error;
  recover(lock, data_failure_->ticket);
  throw Error(error.kind,
              cat("an earlier launch failed: ", error.what(), "; it wrote no variable; the next launch will run"),
              error.where);
}

// The error of launch `told` has been reported to the program. Waits until all poisoned launches are over before others
// of their plans can begin, on every rank alike, and lets their plans run again.
void Session::recover(std::unique_lock<std::mutex>& lock, std::uint64_t told) {
  const auto is_poisoned = [](const LoadedPlan* loaded) {
    return loaded != nullptr && loaded->poisoned != LoadedPlan::none;
  };
  wait_over(lock, [&] {
    return failure_ || std::none_of(launches_.begin(), launches_.end(),
                                    [&](const auto& record) { return !record->over && is_poisoned(record->loaded); });
  });
  if (failure_) return;
  if (data_failure_ && data_failure_->ticket <= told) data_failure_.reset();
  auto heal = [&](LoadedPlan& loaded) {
    if (!is_poisoned(&loaded)) return;
    loaded.poisoned = LoadedPlan::none;
    loaded.released = LoadedPlan::none;
  };
  for (const auto& [number, loaded] : loaded_) heal(*loaded);
  for (const auto& loaded : unloading_plans_) heal(*loaded);
}

void Session::wait(const LaunchRecord& record) {
  std::unique_lock lock(mutex_);
  wait_over(lock, [&] { return record.over; });
  if (!record.error) return;
  failure_reported_ = true;
  const Error error = *record.error;
  // A skipped launch may have poisoned its plan after the failure was reported to the program.
  if (!failure_ && (record.skipped || (data_failure_ && record.ticket == data_failure_->ticket)))
    recover(lock, record.ticket);
  throw error;
}

}  // namespace karez::runtime
