// Attention, rotary position embeddings and einsum, composed of primitive ops so that their sharding rules apply.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

struct AttentionOptions {
  bool causal = false;               // query i attends to keys 0 to i
  std::optional<double> scale = {};  // factor of q k^T; 1 / sqrt(d) by default
};
// Computes softmax(q k^T scale + mask) v (Vaswani et al., 2017): q [n..., h, t, d], k [n..., g, s, d], v [n..., g, s,
// e] -> [n..., h, t, e]. g must divide h; each group of h / g query heads shares one key head (grouped queries; Ainslie
// et al., 2023). The mask broadcasts to [n..., h, t, s]. A bool mask is true for visible keys; a mask of q's dtype is
// added to the scores, and -inf hides a key. A query without visible keys has result 0 and gradients 0.
ValueId attention(Builder& b, ValueId q, ValueId k, ValueId v, const AttentionOptions& options = {},
                  std::optional<ValueId> mask = {});

// Computes only the weights of attention, [n..., h, t, s].
ValueId attention_weights(Builder& b, ValueId q, ValueId k, const AttentionOptions& options = {},
                          std::optional<ValueId> mask = {});

struct RotaryOptions {
  double base = 10000;
  std::int64_t first = 0;    // position of the first row
  bool interleaved = false;  // pairs are (0, 1), (2, 3), ...; otherwise (0, d / 2), (1, d / 2 + 1), ...
};
// Applies rotary position embeddings (Su et al., 2021) to x [..., t, d], where d is even: rotates pair i of row p by
// the angle p base^(-2 i / d).
ValueId rotary(Builder& b, ValueId x, const RotaryOptions& options = {});

// Computes an Einstein summation such as "bhtd,bhsd->bhts". Letters that are not in the result are summed over. Without
// "->", the result has the letters that occur once, in alphabetical order. "..." stands for leading dimensions, which
// must be equal in all operands that have them. A letter occurs at most once in an operand.
ValueId einsum(Builder& b, std::string_view subscripts, std::span<const ValueId> operands);

}  // namespace karez::ops::build
