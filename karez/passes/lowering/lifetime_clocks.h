// LifetimeClocks: the lifetimes of buffers as intervals of time along chains of acts.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "karez/passes/lowering/arena_buffers.h"
#include "karez/passes/namespace.h"
#include "karez/solve/lifetime_packing.h"
#include "karez/solve/token_reachability.h"

namespace karez::passes {

// The lifetimes of a device's buffers, with one clock for each chain of acts on which many buffers begin. A time is a
// position on the chain and a call of the act at that position. If a buffer begins on a different chain, its lifetime
// on this clock begins after the last act of this chain that precedes the buffer.
class LifetimeClocks {
 public:
  LifetimeClocks(const solve::TokenReachability& reachability, const std::vector<ArenaBuffer>& buffers);
  std::vector<solve::Timeline> timelines;  // one for each clock
  std::vector<int> clock_of;               // the clock of each buffer

 private:
  using Time = std::pair<int, int>;  // position on the chain, call of that act
  static constexpr std::size_t max_clocks = 4;

  struct Lifetime {
    Time begin, end, next_round_end;
  };
  Lifetime lifetime_of(const ArenaBuffer& b, int chain) const;
  solve::Timeline timeline_of(int chain) const;

  const solve::TokenReachability& reachability_;
  const std::vector<ArenaBuffer>& buffers_;
};

}  // namespace karez::passes
