// make_evaluator: makes the function with which the compiler folds constants. It evaluates one kernel call on host
// bytes.
#pragma once

#include <memory>

#include "karez/kernels/kernel.h"
#include "karez/passes/compilation.h"

namespace karez {

// The returned function shares ownership of the table.
passes::Evaluate make_evaluator(std::shared_ptr<const kernels::KernelTable> kernels);

}  // namespace karez
