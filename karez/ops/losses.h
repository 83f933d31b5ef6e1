// Losses that say more than those of karez/ops/compose.h: cross-entropy that leaves rows out.
#pragma once

#include <cstdint>
#include <optional>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// cross_entropy without the rows whose label is ignore_index, which count neither in the sum nor in the mean; NaN where
// no row is left (PyTorch's rule). The mean divides by a count that devices sum before any gradient begins, so that
// this is asked for and not the default.
ValueId cross_entropy(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights,
                      std::optional<std::int64_t> ignore_index);

}  // namespace karez::ops::build
