// Who made the first NaN or infinity: looks at what an act read and wrote.
#pragma once

#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::runtime {

// True if it holds neither NaN nor infinity; what is no float always does.
bool all_finite(const TensorRef& tensor);

// Throws (kind data) if it holds one: "makes inf at [3, 4] of f32[8, 10]". `verb`: makes, holds.
void require_finite(const TensorRef& tensor, const char* verb);

// Throws (kind data) if the operand lies in a variable and holds NaN, which came with an earlier launch or from a file:
// "reads variable 'fc.weight', which holds NaN at [0] of f32[4]". An infinity may be meant.
void require_numbers(const Plan& plan, const Operand& operand, const std::byte* bytes);

}  // namespace karez::runtime
