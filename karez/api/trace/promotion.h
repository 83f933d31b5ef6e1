// Type promotion of operands.
#pragma once

#include <initializer_list>
#include <span>

#include "karez/api/trace/trace.h"

namespace karez {

// Returns the result type as PyTorch determines it. Tensors with dimensions take precedence over scalar tensors, which
// take precedence over numbers. A group of lower precedence counts only if its kind (bool < integer < float) is higher.
DType promoted(const Trace& trace, std::span<const Term* const> terms);
DType promoted(const Trace& trace, std::initializer_list<const Term*> terms);

// Returns whether all terms are numbers and at least one of them is an input. The result is then computed in f64 or
// i64, as on the host.
bool are_numbers(std::span<const Term* const> terms);
bool are_numbers(std::initializer_list<const Term*> terms);

ValueId as(Trace& trace, const Term& term, DType dtype);  // returns the operand, cast to this type

}  // namespace karez
