// The identity element of a reduction.
#pragma once

#include "karez/base/attrs.h"
#include "karez/passes/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::passes {

// Returns an integer for integer types, since no double equals the largest i64; otherwise a double.
Attr identity_of(Reduce reduce, DType dtype);

}  // namespace karez::passes
