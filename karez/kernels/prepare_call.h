// A plan's call made ready for its kernel: asked when a plan is loaded, and when it is verified.
#pragma once

#include <string>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"
#include "karez/plan/plan.h"

namespace karez::kernels {

// An error where there is no such kernel, or where it does not take the call: other shapes, dtypes, strides or
// attributes, or less workspace than it needs.
PreparedKernel prepare_call(const KernelTable& kernels, const plan::Call& call, const std::string& device);

}  // namespace karez::kernels
