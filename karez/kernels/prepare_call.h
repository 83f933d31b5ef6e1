// Prepares a plan's call for its kernel, when a plan is loaded and when it is verified.
#pragma once

#include <string>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"
#include "karez/plan/plan.h"

namespace karez::kernels {

// An error if there is no such kernel, or if it does not support the call: other shapes, dtypes, strides or attributes,
// or too little workspace.
PreparedKernel prepare_call(const KernelTable& kernels, const plan::Call& call, const std::string& device);

}  // namespace karez::kernels
