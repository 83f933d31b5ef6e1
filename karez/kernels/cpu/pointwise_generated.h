// Pointwise kernels generated at build time from the rows of karez/ops/pointwise.cc: Highway code for f32, dispatched
// at run time.
#pragma once

#include <cstdint>
#include <span>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// One expression. Each element is computed independently: equal elements give equal bits in any range.
struct GeneratedPointwise {
  const char* expr;   // canonical: "max(x0, 0)"
  const char* types;  // of operands and result, f for f32 and b for bool (a byte, 0 or 1): "bff>f" for select(x0, x1,
                      // x2), "ff>b" for x0 < x1
  // Elements begin to end - 1. Operand i is in[i], dense, or the single element in[i][0] if in_is_scalar[i] is not 0.
  // `out` may be one of the dense operands of its type, but must not overlap any in another way. Nothing is allocated.
  void (*run)(std::int64_t begin, std::int64_t end, const void* const* in, const std::uint8_t* in_is_scalar, void* out);
};

// All of them, sorted by expression.
std::span<const GeneratedPointwise> generated_pointwise();

}  // namespace karez::kernels
