// The failures of a session's launches: which launch failed first, and whether later launches may run. The session's
// mutex guards the state.
//
// A launch that failed before it wrote a variable is a data failure and changes nothing: its tokens have been returned,
// and no variable has changed. Later launches of its plan are poisoned until the error is reported to the program, by a
// wait that throws or by the next launch; then its launches run again. After any other failure (a launch that failed
// after it had written variables, a broken link, a lost rank) the session cannot be used until `reload`.
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
  // Stores the outcome of a launch in its record and in this state. `broken`: a protocol error has ended the use of the
  // session. `several_ranks`: all ranks agree on outcomes.
  void record_outcome(LaunchRecord& record, const LaunchEnd& end, bool broken, bool several_ranks);

  // The failure after which no launch can run until a reload; nullopt if there is none.
  const std::optional<Error>& failure() const { return failure_; }
  // True if the launch was made after the launch that failed.
  bool is_after_failure(std::uint64_t ticket) const { return failure_ && ticket > failed_ticket_; }
  void set_protocol_error(const Error& error);  // becomes the failure, if there is no earlier failure
  // Launches from this ticket on were aborted.
  void set_abort(const Error& error, std::uint64_t first_ticket);
  // The first error of all ranks aborted the launches. `wait_text`: the ranks that this rank waited for.
  void set_rank_failure(std::string wait_text);
  bool is_aborted_by_rank() const { return aborted_by_rank_; }

  // The first launch that failed and wrote no variable, until its error is reported to the program, at the latest by
  // the launch LaunchTable::report_within launches later.
  struct DataFailure {
    Error error;
    std::uint64_t ticket = 0;
    std::int64_t index = 0;
  };
  const std::optional<DataFailure>& data_failure() const { return data_failure_; }
  bool is_data_failure(const LaunchRecord& record) const;
  void clear_data_failure(std::uint64_t ticket);  // if its launch has this ticket or an earlier one

  Error unusable_error(std::string_view text) const;  // the error of calls after the failure, with its kind
  Error skipped_error(const LaunchRecord& record) const;
  // The error of a launch that ended on this rank after a rank failed. Its own error, if any, follows the first error
  // of all ranks.
  Error abort_error(const LaunchRecord& record) const;
  const std::string& wait_text() const { return wait_text_; }

  void clear(bool keep_abort);  // `keep_abort`: the broken links to the other ranks are still open

 private:
  std::optional<Error> failure_;
  std::uint64_t failed_ticket_ = 0;
  std::optional<DataFailure> data_failure_;
  bool aborted_by_rank_ = false;
  std::string wait_text_;
};

}  // namespace karez::runtime
