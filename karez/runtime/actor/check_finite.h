// Checks the operands and results of acts, in order to find the origin of the first NaN or infinity.
#pragma once

#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::runtime {

// True if the tensor holds neither NaN nor infinity; always true if its type is not a float type.
bool all_finite(const TensorRef& tensor);

// Throws an error (kind data) if the tensor holds NaN or infinity, such as "produces inf at [3, 4] of f32[8, 10]".
// `verb` is "produces" or "holds".
void require_finite(const TensorRef& tensor, const char* verb);

// Throws an error (kind data) if the operand is in a variable and holds NaN, which comes from an earlier launch or a
// file: "reads variable 'fc.weight', which holds NaN at [0] of f32[4]". Infinity is accepted, because it may be
// intended.
void require_numbers(const Plan& plan, const Operand& operand, const std::byte* bytes);

}  // namespace karez::runtime
