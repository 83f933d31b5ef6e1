// The emit pass: converts the local program to a Plan.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the plan that the results of all earlier passes describe.
Plan emit(const Compilation& c);

}  // namespace karez::passes
