// The state that a rank reports with a heartbeat: its progress, its current call, and the ranks that it waits for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct RankWait {
  static constexpr int others = -1;  // all ranks that have not reached the same point yet
  int rank = others;                 // a rank, or `others`
  std::string what;                  // such as "a5 'all_reduce w' of launch 7 (all_reduce at net.cc:12), r9"
  bool operator==(const RankWait&) const = default;
};

struct RankState {
  std::uint64_t progress = 0;   // changes with every act, message, received byte and call of the program
  bool can_progress = false;    // this rank has work that is ready to run
  std::string current_call;     // the running call: "a3 'compute.1' of launch 7 (matmul at net.cc:12)"; "": none
  std::vector<RankWait> waits;  // empty: this rank waits for no rank
  bool operator==(const RankState&) const = default;
};

// Returns at most `max_bytes` bytes of text. Longer text is truncated; the waits come last, so they are cut first.
std::string encode(const RankState& state, std::size_t max_bytes);
RankState decode_state(std::string_view text);  // accepts any bytes

}  // namespace karez::runtime
