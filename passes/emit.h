// emit: the local program as a Plan.
#pragma once

#include "passes/compilation.h"

namespace karez {

void emit(Compilation& c);

}  // namespace karez
