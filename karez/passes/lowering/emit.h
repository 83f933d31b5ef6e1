// emit: converts the local program to a Plan.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Reads the results of all earlier passes.
Plan emit(const Compilation& c);

}  // namespace karez::passes
