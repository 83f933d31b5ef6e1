// layout: the order in which each value's dimensions lie in memory, by the summed price of the calls that write and read it and of copies.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

// One order a value, the same on every rank and device: it is decided on the shapes of the mesh's first device.
std::vector<Ints> memory_orders(const Compilation& c);

void layout(Compilation& c);

}  // namespace karez::passes
