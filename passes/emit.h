// emit: the local program as a Plan.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

void emit(Compilation& c);

}  // namespace karez::passes
