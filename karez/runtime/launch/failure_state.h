// The failures of a session's launches: which launch failed first, and whether later launches may run. The session's
// mutex guards the state.
//
// A launch that failed before it wrote a variable is a data failure. It has no lasting effect: its tokens have been
// returned, and no variable has changed. Later launches of its plan are poisoned until the error is reported to the
// program, by a wait that throws or by the next launch; after that the plan runs again. After any other failure (a
// launch that failed after it had written variables, a broken link, a lost rank) the session cannot be used until
// `reload`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "karez/base/error.h"
#include "karez/runtime/control.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct LaunchRecord;

class FailureState {
 public:
  // Stores the outcome of a launch in its record and in this state. `broken`: true after a protocol error.
  // `several_ranks`: true if other ranks take part, with which this rank must agree on every outcome.
  void record_outcome(LaunchRecord& record, const LaunchEnd& end, bool broken, bool several_ranks);

  // Returns the failure after which no launch can run until a reload; nullopt if there is none.
  const std::optional<Error>& failure() const { return failure_; }
  // True if the launch with this ticket was made after the launch that failed.
  bool is_after_failure(std::uint64_t ticket) const { return failure_ && ticket > failed_ticket_; }
  void set_protocol_error(const Error& error);  // becomes the failure, if there is no earlier failure
  // Records that the launches from this ticket on were aborted.
  void set_abort(const Error& error, std::uint64_t first_ticket);
  // Records that the first error of any rank aborted the launches. `wait_text` says which ranks this rank waited for.
  void set_rank_failure(std::string wait_text);
  bool is_aborted_by_rank() const { return aborted_by_rank_; }

  // The first launch that failed and wrote no variable. It is kept until its error is reported to the program, which
  // happens at most LaunchTable::report_within launches later.
  struct DataFailure {
    Error error;
    std::uint64_t ticket = 0;
    std::int64_t index = 0;
  };
  const std::optional<DataFailure>& data_failure() const { return data_failure_; }
  bool is_data_failure(const LaunchRecord& record) const;
  void clear_data_failure(std::uint64_t ticket);  // does nothing if its launch has a later ticket

  // Returns the error of calls after the failure. It has the kind of the failure, and its message begins with `text`.
  Error unusable_error(std::string_view text) const;
  Error skipped_error(const LaunchRecord& record) const;
  // Returns the error of a launch that ended on this rank after a rank failed: the first error of any rank, followed
  // by the launch's own error if it has one.
  Error abort_error(const LaunchRecord& record) const;
  const std::string& wait_text() const { return wait_text_; }

  void clear(bool keep_abort);  // `keep_abort`: true while the links to the other ranks, which broke, are still open

 private:
  std::optional<Error> failure_;
  std::uint64_t failed_ticket_ = 0;
  std::optional<DataFailure> data_failure_;
  bool aborted_by_rank_ = false;
  std::string wait_text_;
};

}  // namespace karez::runtime
