// Records failures, and derives the errors of later launches from the first one.
#include "karez/runtime/launch/failure_state.h"

#include <algorithm>
#include <utility>

#include "karez/base/text.h"
#include "karez/runtime/current_error.h"
#include "karez/runtime/launch/launch_record.h"

namespace karez::runtime {

void FailureState::record_outcome(LaunchRecord& record, const LaunchEnd& end, bool broken, bool several_ranks) {
  // A launch that did not begin because of an earlier failure is skipped too.
  const bool skipped = !end.error && (end.skipped || (failure_ && record.number < 0));
  if (!end.error && !skipped) return;
  if (end.error) {
    if (!record.error) record.error = end.error;
    if (end.has_written)
      record.error = Error(record.error->kind, cat(record.error->what(), torn_text()), record.error->where);
  }
  record.skipped = skipped;
  if (skipped && !record.error) record.error = skipped_error(record);
  if (end.has_written || record.plan_unusable || broken) {
    if (!failure_ || record.ticket < failed_ticket_) failure_ = record.error, failed_ticket_ = record.ticket;
  } else if (end.error && !failure_ && (!data_failure_ || record.ticket < data_failure_->ticket)) {
    data_failure_ = DataFailure{*record.error, record.ticket, record.index};
  } else if (skipped && !failure_ && !data_failure_ && !several_ranks) {  // the failure was reported earlier
    data_failure_ = DataFailure{*record.error, record.ticket, record.index};
  }
}

void FailureState::set_protocol_error(const Error& error) {
  if (!failure_) failure_ = error;
}

void FailureState::set_abort(const Error& error, std::uint64_t first_ticket) {
  failure_ = error;
  failed_ticket_ = failed_ticket_ == 0 ? first_ticket - 1 : std::min(failed_ticket_, first_ticket - 1);
}

void FailureState::set_rank_failure(std::string wait_text) {
  wait_text_ = std::move(wait_text);
  aborted_by_rank_ = true;
}

bool FailureState::is_data_failure(const LaunchRecord& record) const {
  return data_failure_ && record.ticket == data_failure_->ticket;
}

void FailureState::clear_data_failure(std::uint64_t ticket) {
  if (data_failure_ && data_failure_->ticket <= ticket) data_failure_.reset();
}

Error FailureState::unusable_error(std::string_view text) const {
  return {failure_->kind,
          cat(text, "the state of this session is unusable, because a launch failed (", failure_->what(),
              "); reset the world"),
          failure_->where};
}

Error FailureState::skipped_error(const LaunchRecord& record) const {
  if (failure_) return unusable_error(cat("launch ", record.ticket, " did not run: "));
  std::optional<Error> first;
  if (data_failure_) first = data_failure_->error;
  for (const auto& producer : record.producers)
    if (!first && producer->error) first = producer->error;
  if (!first) return Error(cat("launch ", record.ticket, " did not run, because an earlier launch failed"));
  return {first->kind, cat("launch ", record.ticket, " did not run, because an earlier launch failed: ", first->what()),
          first->where};
}

Error FailureState::abort_error(const LaunchRecord& record) const {
  const std::string first = failure_->what(), own = record.error ? record.error->what() : first;
  const std::string more = own.find(first) == own.npos ? cat("\n  here: ", own) : wait_text_;
  return {failure_->kind, cat("launch ", record.ticket, ": ", first, more), failure_->where};
}

void FailureState::clear(bool keep_abort) {
  failure_.reset();
  data_failure_.reset();
  failed_ticket_ = 0;
  if (!keep_abort) aborted_by_rank_ = false;
}

}  // namespace karez::runtime
