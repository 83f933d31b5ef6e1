// For tests: acts that could begin wait at random, as if kernels, links and threads took what they like.
#pragma once

#include <cstdint>

#include "karez/base/hash.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct Delays {
  int max_microseconds = 0;  // microseconds; 0: no act waits
  std::uint64_t seed = 0;

  // Of an actor's act with this number: 0 to `most` microseconds, by the seed alone.
  std::int64_t microseconds(int actor, std::int64_t act) const {
    return static_cast<std::int64_t>(Hash().add(seed).add(actor).add(act).value() %
                                     (static_cast<std::uint64_t>(max_microseconds) + 1));
  }
};

}  // namespace karez::runtime
