// Attention, rotary positions and einsum: compositions, so that the sharding rules (by heads, by batch) apply.
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
  std::optional<double> scale = {};  // factor of the products; default 1 / sqrt(d)
};
// softmax(q k^T scale + mask) v; Vaswani et al., 2017. q [n..., h, t, d], k [n..., g, s, d], v [n..., g, s, e] ->
// [n..., h, t, e]; g divides h, and h / g heads of queries share one head of keys (grouped queries; Ainslie et al.,
// 2023). mask: bool (true: visible) or of q's dtype (added), with a shape that broadcasts to [n..., h, t, s]; adding
// -inf hides a key. A query without visible keys has result 0 and gradients 0.
ValueId attention(Builder& b, ValueId q, ValueId k, ValueId v, const AttentionOptions& options = {},
                  std::optional<ValueId> mask = {});

// The weights of attention alone, [n..., h, t, s].
ValueId attention_weights(Builder& b, ValueId q, ValueId k, const AttentionOptions& options = {},
                          std::optional<ValueId> mask = {});

struct RotaryOptions {
  double base = 10000;
  std::int64_t first = 0;    // the position of the first row
  bool interleaved = false;  // pairs (0, 1), (2, 3), ...; otherwise (0, d / 2), (1, d / 2 + 1), ...
};
// Rotary positions (Su et al., 2021): x [..., t, d]; rotates pair i of row p by the angle p base^(-2 i / d). d is even.
ValueId rotary(Builder& b, ValueId x, const RotaryOptions& options = {});

// Einstein summation: "bhtd,bhsd->bhts". Letters that are not in the result are summed over; without "->" the result
// has the letters that occur once, in alphabetical order; "..." stands for leading dimensions, equal in all operands
// that have them. A letter occurs at most once in an operand.
ValueId einsum(Builder& b, std::string_view subscripts, std::span<const ValueId> operands);

}  // namespace karez::ops::build
