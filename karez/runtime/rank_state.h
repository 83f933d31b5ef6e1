// What one rank says of itself with a heartbeat: how far it has come, what it is inside of, and whom it waits for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct RankWait {
  static constexpr int others = -1;  // whoever has not come yet
  int rank = others;                 // a rank
  std::string what;                  // "a5 'all_reduce w' of launch 7 (all_reduce at net.cc:12), r9"
  bool operator==(const RankWait&) const = default;
};

struct RankState {
  std::uint64_t progress =
      0;  // another number whenever anything has moved: an act, a message, a byte that came, a call of the program's
  bool can_progress = false;    // something here is ready to go on by itself
  std::string current_call;     // a call that is under way: "a3 'compute.1' of launch 7 (matmul at net.cc:12)"; "" none
  std::vector<RankWait> waits;  // none: it waits for nobody
  bool operator==(const RankState&) const = default;
};

// As text of at most so many bytes: what does not fit is left out from the end, waits first.
std::string encode(const RankState& state, std::size_t most);
RankState decode_state(std::string_view text);  // whatever the bytes are

}  // namespace karez::runtime
