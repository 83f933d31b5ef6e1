// Control messages between the ranks and rank 0 about the ops of a world (agreement.h), and their encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/error.h"
#include "karez/control/namespace.h"
#include "karez/runtime/control.h"

namespace karez::control {

// Fields that the kind of a message does not use have their default values and take no bytes.
struct ControlMessage {
  static constexpr std::size_t max_text = 4000;  // longer texts are truncated

  enum class Kind : std::uint8_t {
    begun = 1,  // to rank 0: this rank begins `op`; from rank 0, if a rank waits for that: all ranks have begun it
    ended,      // to rank 0: `op` is over on this rank; from rank 0: on all ranks. If it failed: error, text, where
    failed,     // with error, lost, ranks, text and where
    goodbye,
    requested,    // to rank 0: like begun, but `op` begins only when all ranks have requested it (in `round`)
    withdrawn,    // to rank 0: the rank withdraws its request
    refused,      // from rank 0: `op` did not begin; with reason, ranks and text
    invalidated,  // to rank 0: the launch `op` is poisoned on this rank; from rank 0: on some (`awaited`: all) ranks
  };
  Kind kind = Kind::begun;
  bool awaited = false;     // begun: ranks wait until all have begun the op; begun and requested: no `ended` follows
  std::uint64_t op = 0;     // the number of the op
  std::uint32_t round = 0;  // the number of times that this rank was refused an op with this number
  std::uint64_t hash = 0, sum = 0;
  InputHashes inputs;
  RankTime rank_time;                                            // ended: set for a launch
  bool skipped = false, has_written = false, has_error = false;  // ended; has_error: the op failed
  std::uint32_t error = 0;                                       // failed: the ErrorKind
  Refusal::Reason reason = Refusal::Reason::other;
  std::int32_t ranks[2] = {0, 0};  // failed: the ranks that differ at `op`, if any; refused: as in Refusal
  std::int32_t lost = -1;          // failed: the rank that cannot continue, if that is the cause
  std::string text, where;

  static ControlMessage of_failure(const base::Error& error, std::optional<int> lost);
  static ControlMessage of_end(std::uint64_t op, const LaunchEnd& end);
  LaunchEnd end() const;
  base::Error failure() const;
};

std::vector<std::byte> encode(const ControlMessage& message);
std::optional<ControlMessage> decode_control_message(std::span<const std::byte> bytes);  // nullopt if invalid

}  // namespace karez::control
