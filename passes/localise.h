// localise: this rank's nodes, once for each own device, with local shapes, offsets, kernels and windows.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

void localise_pass(Compilation& c);

}  // namespace karez::passes
