// Pass emit: converts the local program to a Plan.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the plan. emit reads the results of all earlier passes.
Plan emit(const Compilation& c);

}  // namespace karez::passes
