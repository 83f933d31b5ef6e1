// Losses with more options than those of karez/ops/compose.h: cross-entropy that ignores rows.
#pragma once

#include <cstdint>
#include <optional>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// cross_entropy without the rows with label ignore_index, which count neither in the sum nor in the mean; NaN if no
// row remains (PyTorch's rule). The mean divides by a count that devices sum before any gradient begins, so this form
// is not the default.
ValueId cross_entropy(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights,
                      std::optional<std::int64_t> ignore_index);

}  // namespace karez::ops::build
