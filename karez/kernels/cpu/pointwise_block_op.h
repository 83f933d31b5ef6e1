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

}  // namespace karez::kernels
