// One operation of a pointwise expression on blocks of elements, and how the blocks are stored.
#pragma once

#include <cstdint>

#include "karez/base/expr.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// How the elements of a block are stored: in the type T of the computation (f32 or f64), or narrower.
enum class Storage : std::uint8_t { computed, f32, bf16, f16 };

struct BlockOperand {
  const void* data = nullptr;
  Storage storage = Storage::computed;
};

// An operation on blocks: dst[i] = op(a[i], b[i], c[i]) for i < count.
struct BlockOp {
  ExprKind op;
  BlockOperand a, b, c;
  void* dst;
  Storage dst_storage = Storage::computed;
};

// The functions of one instruction set on blocks of C, which is float or double. A block in memory may be stored in a
// narrower type.
template <class C> struct BlockFunctions {
  void (*run)(const BlockOp& op, std::int64_t count);
  // Writes each of the values `columns` times, and up to a vector of other elements after them.
  void (*fill_rows)(const C* values, std::int64_t rows, std::int64_t columns, C* out);
  void (*from_bools)(const std::uint8_t* from, C* to, std::int64_t count);
  void (*to_bools)(const C* from, std::uint8_t* to, std::int64_t count);
};

BlockFunctions<float> block_functions_f32();
BlockFunctions<double> block_functions_f64();

}  // namespace karez::kernels
