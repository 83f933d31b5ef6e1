// Type promotion of operands.
#pragma once

#include <initializer_list>
#include <span>

#include "karez/api/trace/trace.h"

namespace karez {

// Returns the result type as PyTorch determines it: tensors with dimensions take precedence over scalar tensors, and
// these over numbers; a group of lower precedence counts only if its kind is higher.
DType promoted(const Trace& trace, std::span<const Term* const> terms);
DType promoted(const Trace& trace, std::initializer_list<const Term*> terms);

// Returns whether all terms are numbers, at least one of which is an input: the result is computed as on the host, in
// f64 or i64.
bool are_numbers(std::span<const Term* const> terms);
bool are_numbers(std::initializer_list<const Term*> terms);

ValueId as(Trace& trace, const Term& term, DType dtype);  // returns the operand, cast to this type

}  // namespace karez
