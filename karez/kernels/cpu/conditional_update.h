// Conditional updates: if `apply` is false, the old states are kept.
#pragma once

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// The call of the update itself, without `apply`, a bool[] after all other operands.
CallSpec without_apply(const CallSpec& call);
bool has_apply(const CallSpec& call);
// The kernel of a call with per_in operands per tensor, whose results replace all except the last of them, followed by
// scalars and `apply`.
PreparedKernel conditional(const CallSpec& call, std::size_t per_in, PreparedKernel step);

}  // namespace karez::kernels
