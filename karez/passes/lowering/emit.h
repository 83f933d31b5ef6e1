// emit: the local program as a Plan.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// It reads what every pass before it made.
Plan emit(const Compilation& c);

}  // namespace karez::passes
