// Updates that may leave all as it is: the call without its last operand, or the old states kept.
#pragma once

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// The call of the update itself; what it takes of `apply`, a bool[] behind everything else, is left out.
CallSpec without_apply(const CallSpec& call);
bool has_apply(const CallSpec& call);
// Of a call with per_in operands a tensor, whose results stand for all but the last of them, and `scalars` more with
// `apply`.
PreparedKernel conditional(const CallSpec& call, std::size_t per_in, PreparedKernel step);

}  // namespace karez::kernels
