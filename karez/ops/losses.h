// Losses with more options than in karez/ops/compose.h: cross-entropy that ignores rows.
#pragma once

#include <cstdint>
#include <optional>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// Computes cross_entropy without the rows whose label is ignore_index, which count neither in the sum nor in the mean.
// As in PyTorch, the result is NaN if no row remains. The devices must sum the count of rows before they compute
// gradients, so this version is not the default.
ValueId cross_entropy(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights,
                      std::optional<std::int64_t> ignore_index);

}  // namespace karez::ops::build
