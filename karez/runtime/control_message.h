// What ranks and rank 0 tell each other about the ops of a world (agreement.h), and its bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/error.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/straggler_detector.h"

namespace karez::runtime {

// What a call is given, as each rank has it: 0 for what may differ. The last place stands for all that have no place of
// their own.
struct InputHashes {
  static constexpr std::size_t capacity = 16;
  std::array<std::uint32_t, capacity> values = {};
  bool operator==(const InputHashes&) const = default;
};

// How a launch ended, on one rank or on all of them. It wrote: an act that writes a variable worked.
struct LaunchEnd {
  std::optional<base::Error> error;  // the first one
  bool skipped = false;              // some of its acts did not work, because another launch or another rank failed
  bool wrote = false;
};

// Why an op that was asked for did not begin: rank `ranks[0]` asked for it, and rank `ranks[1]` did something else.
struct Refusal {
  enum class Reason : std::uint32_t {
    other,      // came to `text`
    withdrawn,  // by this rank itself, in time
  };
  Reason reason = Reason::other;
  int ranks[2] = {0, 0};
  std::string text;
};

// One message. Fields that its kind does not name are at their defaults, and take no bytes.
struct ControlMessage {
  static constexpr std::size_t max_text = 4000;  // longer ones are cut

  enum class Kind : std::uint8_t {
    begun = 1,  // to rank 0: this rank begins `op`; from rank 0: all have, where a rank waits for that
    ended,      // to rank 0: it is over on this rank; from rank 0: on all. Where it failed, error, text and where
    failed,     // error, lost, ranks, text and where
    goodbye,
    asked,  // to rank 0: like begun, but it begins only once all ranks have asked for it (`round`) and rank 0 has said
            // begun
    withdrawn,    // to rank 0: the rank asks no longer
    refused,      // from rank 0: `op` did not begin; refusal
    invalidated,  // to rank 0: the launch `op` does not work here any more; from rank 0: it failed on some rank, or
                  // (awaited) on all does not work
  };
  Kind kind = Kind::begun;
  bool awaited = false;     // begun: ranks wait until all have begun it, and nothing follows; asked: nothing follows
  std::uint64_t op = 0;     // its number
  std::uint32_t round = 0;  // how often this rank was refused an op of this number
  std::uint64_t hash = 0, sum = 0;
  InputHashes inputs;
  RankTime rank_time;                                      // ended: of a launch
  bool skipped = false, wrote = false, has_error = false;  // likewise; has_error: it failed
  std::uint32_t error = 0;                                 // failed: its kind
  Refusal::Reason reason = Refusal::Reason::other;
  std::int32_t ranks[2] = {0, 0};  // failed: that differ at `op`, where that is why; refused: the refusal's
  std::int32_t lost = -1;          // failed: a rank that cannot go on, where that is why
  std::string text, where;

  static ControlMessage of_failure(const base::Error& error, std::optional<int> lost);
  static ControlMessage of_end(std::uint64_t op, const LaunchEnd& end);
  LaunchEnd end() const;
  base::Error failure() const;
};

std::vector<std::byte> encode(const ControlMessage& message);
std::optional<ControlMessage> decode_control_message(std::span<const std::byte> bytes);  // nothing: these are no note's

}  // namespace karez::runtime
