// Records the ends of launches, and recovers from failed ones (failure_state.h).
#include <algorithm>

#include "karez/runtime/control.h"
#include "karez/runtime/launch/launch_queue.h"
#include "karez/runtime/launch/launch_table.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {

void Session::finished(LaunchRecord& record) {
  LaunchEnd end;
  RankTime spent;
  if (control_ == nullptr && record.error) record_flight(*record.error, {});
  if (record.op != 0) spent = rank_time(record);
  {
    std::lock_guard lock(mutex_);
    if (record.over) return;  // on_protocol_error has stored the error
    record.ended = true;
    if (record.habit != nullptr) record.habit->ticks = ticks() - record.queued_at;
    end = {record.error, record.skipped, record.has_written};
    const bool aborted = failures_.is_aborted_by_rank();
    if (record.op == 0 || aborted) {
      if (record.loaded != nullptr) failures_.record_outcome(record, end, broken(), control_ != nullptr);
      if (aborted && record.op != 0) record.error = failures_.abort_error(record);
      record.over = true;
      if (launches_->active() == 0) idle_clock_->ended(ticks());
      over_.notify_all();
      return;
    }
  }
  if (end.error && record.plan_unusable) control_->fail(*end.error);
  else control_->end(record.op, spent, end);
}

bool Session::rejects(const LaunchRecord& record) const {
  std::lock_guard lock(mutex_);
  return broken() || failures_.is_after_failure(record.ticket);
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
  InvalidatedOp& invalidated = *invalidated_.emplace_back(std::make_unique<InvalidatedOp>());
  invalidated.op = op;
  invalidated.on_all_ranks = on_all_ranks;
  invalidated.mail.kind = Mail::Kind::invalidate;
  invalidated.mail.payload = &invalidated;
  if (Mailbox* first_box = workers_->first_box()) return first_box->post(&invalidated.mail);
  // There is no worker yet. Worker 0 gets the mail when it is created, but the other ranks already wait for this rank.
  lock.unlock();
  if (!on_all_ranks) invalidate(op);
}

// Called by the control when a launch has ended on all ranks. A failure on any rank has the same outcome on all ranks.
void Session::ended(std::uint64_t op, const LaunchEnd& end) {
  std::lock_guard lock(mutex_);
  for (const auto& record : launches_->records()) {
    if (record->op != op || !record->ended) continue;
    failures_.record_outcome(*record, end, broken(), control_ != nullptr);
    record->over = true;
  }
  if (launches_->active() == 0) idle_clock_->ended(ticks());
  over_.notify_all();
}

void Session::grant(LaunchRecord& record) {
  std::lock_guard lock(mutex_);
  record.granted = true;
  over_.notify_all();
}

void Session::check_ranks() {
  std::lock_guard lock(mutex_);
  if (!failures_.failure() || !failures_.is_aborted_by_rank()) return;
  failure_reported_ = true;
  throw *failures_.failure();
}

bool Session::failed() const {
  std::lock_guard lock(mutex_);
  return failures_.failure() || left_ranks_;
}

void Session::on_protocol_error(const Error& error) {
  record_flight(error, {});
  std::lock_guard lock(mutex_);
  broken_ = true;
  for (const auto& record : launches_->records()) {
    if (record->over) continue;
    std::lock_guard record_lock(record->mutex);
    if (!record->error)
      record->error = Error(error.kind, cat("launch ", record->ticket, " was aborted: ", error.what()), error.where);
    record->over = true;
  }
  failures_.set_protocol_error(error);
  over_.notify_all();
}

// Throws the failure, if there is one. This rank may have observed only the end of a link, so it first waits up to
// two seconds for the control to report the first failure of any rank. Call with the lock held.
void Session::throw_failure(std::unique_lock<std::mutex>& lock) {
  if (failures_.failure() && control_ != nullptr)
    over_.wait_for(lock, std::chrono::seconds(2), [&] { return failures_.is_aborted_by_rank(); });
  if (!failures_.failure()) return;
  failure_reported_ = true;
  throw failures_.unusable_error("");
}

// Recovers from the data failure, and throws its error, which no wait has thrown yet. Call with the lock held.
void Session::throw_data_failure(std::unique_lock<std::mutex>& lock) {
  const Error error = failures_.data_failure()->error;
  recover(lock, failures_.data_failure()->ticket);
  throw Error(error.kind,
              cat("an earlier launch failed: ", error.what(), "; it wrote no variable; the next launch will run"),
              error.where);
}

// Call when the error of the launch with this ticket has been reported to the program. Waits until all poisoned
// launches are over, and then lets their plans run again. No later launch of these plans begins before that, on any
// rank.
void Session::recover(std::unique_lock<std::mutex>& lock, std::uint64_t reported_ticket) {
  const auto is_poisoned = [](const LoadedPlan* loaded) {
    return loaded != nullptr && loaded->poisoned != LoadedPlan::none;
  };
  wait_over(lock, [&] {
    const auto& records = launches_->records();
    return failures_.failure() || std::none_of(records.begin(), records.end(), [&](const auto& record) {
             return !record->over && is_poisoned(record->loaded);
           });
  });
  if (failures_.failure()) return;
  failures_.clear_data_failure(reported_ticket);
  for (const auto& [number, loaded] : loaded_) {
    if (!is_poisoned(loaded.get())) continue;
    loaded->poisoned = LoadedPlan::none;
    loaded->released = LoadedPlan::none;
  }
}

bool Session::is_over(const LaunchRecord& record) const {
  std::lock_guard lock(mutex_);
  return record.over;
}

void Session::wait(const LaunchRecord& record) {
  std::unique_lock lock(mutex_);
  note_wait(record);
  wait_over(lock, [&] { return record.over; });
  if (!record.error) return;
  failure_reported_ = true;
  const Error error = *record.error;
  // A skipped launch may have poisoned its plan after the failure was reported to the program.
  if (!failures_.failure() && (record.skipped || failures_.is_data_failure(record))) recover(lock, record.ticket);
  throw error;
}

}  // namespace karez::runtime
