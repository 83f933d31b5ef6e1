// Who made the first NaN or infinity: looks at what an act read and wrote.
#pragma once

#include "tensor/tensor.h"

namespace karez::runtime {

// True if it holds neither NaN nor infinity; what is no float always does.
bool all_finite(const TensorRef& tensor);

// Throws (kind data) if it holds one: "makes inf at [3, 4] of f32[8, 10]". `verb`: makes, holds.
void require_finite(const TensorRef& tensor, const char* verb);

}  // namespace karez::runtime
