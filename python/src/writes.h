// Views of tensors, and writes that change a tensor and all tensors that share its storage.
#pragma once

#include "python/src/value.h"

namespace karez::python {

// Returns a view of a tensor: a value that follows later writes to the tensor, and whose writes change the tensor. The
// result is a copy if PyTorch would copy, or if the operand is a number or an array.
Value make_view(const Operand& input, ViewStep step);

// Computes the content of a tensor whose storage was written.
void refresh(const Value& value);

}  // namespace karez::python
