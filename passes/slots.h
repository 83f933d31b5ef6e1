// slots: how many copies each register between segments gets, and the order in which each communicator runs its collectives.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

void slots(Compilation& c);

}  // namespace karez::passes
