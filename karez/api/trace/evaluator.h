// make_evaluator: a function that evaluates one call on host bytes; the compiler folds constants with it.
#pragma once

#include <memory>

#include "karez/kernels/kernel.h"
#include "karez/passes/compilation.h"

namespace karez {

// The returned function shares ownership of the table.
passes::Evaluate make_evaluator(std::shared_ptr<const kernels::KernelTable> kernels);

}  // namespace karez
