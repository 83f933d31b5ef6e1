// Kernels of conditional updates: if `apply` is false, the states keep their values.
#pragma once

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Returns the call of the unconditional update, which lacks `apply`, a scalar bool after all other operands.
CallSpec without_apply(const CallSpec& call);
bool has_apply(const CallSpec& call);
// Makes the kernel of a conditional call from `step`, the kernel of the unconditional update. The call has `per_in`
// operands for each tensor (the states, then the gradient), followed by scalars and `apply`. The results of the call
// replace the states.
PreparedKernel make_conditional(const CallSpec& call, std::size_t per_in, PreparedKernel step);

}  // namespace karez::kernels
