// Prepares a plan's call for its kernel, when a plan is loaded and when it is verified.
#pragma once

#include <string>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"
#include "karez/plan/plan.h"

namespace karez::kernels {

// Throws if the kernel does not exist or does not support the shapes, dtypes, strides or attributes of the call, or if
// the workspace is too small.
PreparedKernel prepare_call(const KernelTable& kernels, const plan::Call& call, const std::string& device);

}  // namespace karez::kernels
