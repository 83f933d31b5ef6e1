// How a session ends its launches: which of them failed, and what can go on after that.
//
// A launch that failed before it wrote a variable leaves everything as it was: its tokens have come home, no variable
// changed. It is a failure of the data. Later launches of its plan are poisoned until the program has been told, by a
// wait that throws or by the next launch; then all goes on. Everything else (a launch that failed while it wrote, a
// broken link, a rank that is gone) ends the session's use until `reload`.
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
    if (record.over) return;  // told when the session broke
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

// What the launch's end means for it and for the session. Under the lock.
void Session::record_outcome(LaunchRecord& record, const LaunchEnd& end) {
  const bool skipped =
      !end.error && (end.skipped || (failure_ && record.number < 0));  // it did not begin, since one had failed
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
  } else if (skipped && !failure_ && !data_failure_ &&
             agreement_ == nullptr) {  // of a result that failed, of which the program had been told
    data_failure_ = DataFailure{*record.error, record.ticket, record.index};
  }
}

Error Session::skipped_error(const LaunchRecord& record) const {
  if (failure_) return unusable_error(cat("launch ", record.ticket, " did not run: "));
  std::optional<Error> first;
  if (data_failure_) first = data_failure_->error;
  for (const auto& producer : record.producers)
    if (!first && producer->error) first = producer->error;
  if (!first) return Error(cat("launch ", record.ticket, " did not run, because one before it failed"));
  return {first->kind, cat("launch ", record.ticket, " did not run, because one before it failed: ", first->what()),
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
  lock.unlock();  // the worker is told when the first plan is loaded; others wait for this rank now
  if (!on_all_ranks) invalidate(op);
}

// By the agreement: on all ranks. One that failed on some is told alike on all.
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
          cat(text, "this session's state is unusable since a launch failed (", failure_->what(), "); reset the world"),
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
      record->error = Error(why.kind, cat("launch ", record->ticket, " broke off: ", why.what()), why.where);
    record->over = true;
  }
  if (!failure_) failure_ = why;
  over_.notify_all();
}

// This rank may only have seen a link end. What failed first is known once all ranks have been told. Under the lock.
void Session::throw_failure(std::unique_lock<std::mutex>& lock) {
  if (failure_ && agreement_ != nullptr) over_.wait_for(lock, std::chrono::seconds(2), [&] { return aborted_; });
  if (!failure_) return;
  failure_reported_ = true;
  throw unusable_error("");
}

// A failure of the data that no wait has thrown yet. Under the lock.
void Session::throw_data_failure(std::unique_lock<std::mutex>& lock) {
  const Error error = data_failure_->error;
  recover(lock, data_failure_->ticket);
  throw Error(error.kind,
              cat("an earlier launch failed: ", error.what(), "; it wrote no variable, and the next launch runs again"),
              error.where);
}

// The program has been told of this launch. Launches that were poisoned end before any other of their plans begins, on
// every rank alike.
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
  // A launch that was skipped may have poisoned its plan after the program was told of what failed.
  if (!failure_ && (record.skipped || (data_failure_ && record.ticket == data_failure_->ticket)))
    recover(lock, record.ticket);
  throw error;
}

}  // namespace karez::runtime
