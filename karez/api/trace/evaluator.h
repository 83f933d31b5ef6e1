// Running one call on host bytes with the plain kernels: what the compiler folds constants with.
#pragma once

#include <memory>

#include "karez/kernels/kernel.h"
#include "karez/passes/compilation.h"

namespace karez {

// The table lives as long as the function does.
passes::Evaluate make_evaluator(std::shared_ptr<const kernels::KernelTable> kernels);

}  // namespace karez
