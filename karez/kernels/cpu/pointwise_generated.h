// The pointwise kernels that are generated at build time from the rows of karez/ops/pointwise.cc: Highway code for f32,
// dispatched at run time.
#pragma once

#include <cstdint>
#include <span>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// The kernel of one expression. Elements are computed independently: equal operands give bit-identical results,
// whatever the range.
struct GeneratedPointwise {
  const char* expr;   // in canonical form: "max(x0, 0)"
  const char* types;  // of operands and result, f for f32 and b for bool (a byte, 0 or 1): "bff>f" for select(x0, x1,
                      // x2), "ff>b" for x0 < x1
  // Computes elements begin to end - 1. Operand i is the dense array in[i], or the single element in[i][0] if
  // in_is_scalar[i] is not 0. `out` may alias a dense operand of the same type exactly, but must not overlap an operand
  // in another way. Allocates no memory.
  void (*run)(std::int64_t begin, std::int64_t end, const void* const* in, const std::uint8_t* in_is_scalar, void* out);
};

// Returns all generated kernels, sorted by expression.
std::span<const GeneratedPointwise> generated_pointwise();

}  // namespace karez::kernels
