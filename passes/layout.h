// layout: the order in which each value's dimensions lie in memory, by the summed price of the calls that write and read it and of copies.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

// Of every value, its dimensions from the outermost in memory; none: row-major. The same on every rank and device: decided on the shapes of the
// mesh's first device. Localise asks for it before it makes the first value.
std::vector<Ints> memory_orders(const Compilation& c);

// Dense, with dimension order[0] outermost in memory.
View laid_out(DType dtype, const Shape& shape, const Ints& order);

}  // namespace karez::passes
