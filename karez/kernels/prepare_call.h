// Prepares the kernel of a plan's call, when the plan is loaded and when it is verified.
#pragma once

#include <string>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"
#include "karez/plan/plan.h"

namespace karez::kernels {

// Prepares the kernel that the call names, for a device of kind `device` ("cpu"). Throws if the kernel does not exist,
// does not support the shapes, dtypes, strides or attributes of the call, or needs more workspace than the plan gives.
PreparedKernel prepare_call(const KernelTable& kernels, const plan::Call& call, const std::string& device);

}  // namespace karez::kernels
