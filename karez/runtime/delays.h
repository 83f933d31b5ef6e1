// For tests: random delays before acts, which simulate kernels, links and threads of varying speed.
#pragma once

#include <cstdint>

#include "karez/base/hash.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct Delays {
  int max_microseconds = 0;  // 0: no act is delayed
  std::uint64_t seed = 0;

  // Returns the delay of the actor's act with this number: from 0 to `max_microseconds`, determined by the seed.
  std::int64_t microseconds(int actor, std::int64_t act) const {
    return static_cast<std::int64_t>(Hash().add(seed).add(actor).add(act).value() %
                                     (static_cast<std::uint64_t>(max_microseconds) + 1));
  }
};

}  // namespace karez::runtime
