// The broadcast pattern of a pointwise call: its output as dense rows and columns, and how each operand is repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

constexpr int max_pointwise_inputs = 10;

// How an operand is repeated over a dense output of rows x columns. A dense operand is not repeated; the others are one
// element, one row or one column, which is repeated over the output.
enum class Broadcast : std::uint8_t { dense, scalar, row, column };
struct Operand2d {
  Broadcast broadcast = Broadcast::dense;
  std::int64_t row_step = 0;  // elements between rows
  DType dtype = DType::f32;
};

// A call whose output is `rows` dense rows of `columns` elements.
struct BroadcastPattern {
  std::int64_t rows = 1, columns = 1;
  std::vector<Operand2d> inputs;
  DType out = DType::f32;
};

// Returns nullopt if the call has strides, types or a number of inputs that the fast kernels do not support. Kernels
// that compute in f32 support f32, bool, bf16 and f16; kernels that compute in f64 support f64, f32 and bool.
std::optional<BroadcastPattern> find_broadcast_pattern(const CallSpec& call, DType computed = DType::f32);

// Returns how many calls of a group, from `call` to at most `end` - 1, are one call on more elements: their results and
// dense operands follow each other in memory without gaps, and their other operands are the same. `args` are those of
// the group, and `pattern` is that of each call.
std::int64_t adjacent_calls(const BroadcastPattern& pattern, const KernelArgs& args, std::int64_t call,
                            std::int64_t end);

}  // namespace karez::kernels
