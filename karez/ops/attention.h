// Attention, rotary positions, and sums of products by letters. Compositions, so that every sharding (by heads, by
// batch) follows by rule.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

struct AttentionOptions {
  bool causal = false;               // position i of the queries sees positions 0 to i of the keys
  std::optional<double> scale = {};  // of the products; 1 / sqrt(d) if none is given
};
// softmax(q k^T scale + mask) v; Vaswani et al., 2017. q [n..., h, t, d], k [n..., g, s, d], v [n..., g, s, e] ->
// [n..., h, t, e]; g divides h, and h / g heads of queries share one of keys (grouped queries; Ainslie et al., 2023).
// mask: bool (true: is seen) or of q's dtype (added), of a shape that broadcasts to [n..., h, t, s]; a key to which
// -inf is added is not seen. A query that sees nothing gives 0, as do its gradients.
ValueId attention(Builder& b, ValueId q, ValueId k, ValueId v, const AttentionOptions& options = {},
                  std::optional<ValueId> mask = {});

// Its weights alone, [n..., h, t, s].
ValueId attention_weights(Builder& b, ValueId q, ValueId k, const AttentionOptions& options = {},
                          std::optional<ValueId> mask = {});

struct RotaryOptions {
  double base = 10000;
  std::int64_t first = 0;    // the position of the first row
  bool interleaved = false;  // pairs (0, 1), (2, 3), ...; else (0, d / 2), (1, d / 2 + 1), ...
};
// Rotary positions (Su et al., 2021): x [..., t, d], each pair of elements of row p turned by the angle p base^(-2 i /
// d). d is even.
ValueId rotary(Builder& b, ValueId x, const RotaryOptions& options = {});

// Einstein's sum: "bhtd,bhsd->bhts". Letters that are not in the result are summed over; without "->" the result has
// the letters that stand once, in alphabetical order; "..." are leading dimensions, equal in all operands that have
// them. A letter stands at most once in an operand.
ValueId einsum(Builder& b, std::string_view subscripts, std::span<const ValueId> operands);

}  // namespace karez::ops::build
