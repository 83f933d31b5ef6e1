// Checks of an act's operands and results that find the origin of the first NaN or infinity.
#pragma once

#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::runtime {

// True if the tensor holds neither NaN nor infinity; always true for types other than floats.
bool all_finite(const TensorRef& tensor);

// Throws (kind data) if the tensor holds NaN or infinity: "produces inf at [3, 4] of f32[8, 10]". `verb` is "produces"
// or "holds".
void require_finite(const TensorRef& tensor, const char* verb);

// Throws (kind data) if the operand is in a variable and holds NaN, from an earlier launch or a file: "reads variable
// 'fc.weight', which holds NaN at [0] of f32[4]". An infinity may be intended.
void require_numbers(const Plan& plan, const Operand& operand, const std::byte* bytes);

}  // namespace karez::runtime
