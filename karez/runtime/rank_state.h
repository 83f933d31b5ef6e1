// The state that a rank reports with a heartbeat: its progress, its current call, and what it waits for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct RankWait {
  static constexpr int others = -1;  // all ranks that have not reached the same point yet
  static constexpr int data = -2;    // no rank: the program waits for an element of a data set
  int rank = others;                 // a rank, `others` or `data`
  std::string what;                  // such as "a5 'all_reduce w' of launch 7 (all_reduce at net.cc:12), r9"
  bool operator==(const RankWait&) const = default;
  // "rank 1: a5 'all_reduce w' of launch 7 (all_reduce at net.cc:12), r9"; for a data set only `what`.
  std::string text() const;
};

struct RankState {
  std::uint64_t progress = 0;        // changes with every act, message, received byte and call of the program
  bool can_progress = false;         // this rank has work that is ready to run
  std::string current_call = {};     // the running call: "a3 'compute.1' of launch 7 (matmul at net.cc:12)"; "": none
  std::vector<RankWait> waits = {};  // empty: this rank waits for nothing
  // If the program waits for a data set: for how long the stage has been running that it waits for.
  double data_seconds = 0;
  // The wait for a data set; null if there is none. `first_wait` is this one or, without it, the first one.
  const RankWait* data_wait() const;
  const RankWait* first_wait() const;
  bool waits_for_rank() const;
  bool operator==(const RankState&) const = default;
};

// Returns at most `max_bytes` bytes of text. Longer text is truncated; the waits come last, so they are cut first.
std::string encode(const RankState& state, std::size_t max_bytes);
RankState decode_state(std::string_view text);  // accepts any bytes

}  // namespace karez::runtime
