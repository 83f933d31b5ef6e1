// Random numbers as values of a program. They depend on the world's seed, the module path, the step and the logical
// element, so they are the same on every mesh.
#pragma once

#include "karez/api/tensor.h"

namespace karez {

// Returns uniform numbers in [0, 1). Every call of the compiled function draws new numbers. The result has no gradient.
// `dtype` must be a floating-point type.
Tensor random_uniform(Shape shape, DType dtype = DType::f32, SourceLine where = SourceLine::current());
// Returns normal numbers with mean 0 and standard deviation 1, by the Box-Muller transform of two uniform numbers.
Tensor random_normal(Shape shape, DType dtype = DType::f32, SourceLine where = SourceLine::current());

}  // namespace karez
