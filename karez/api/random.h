// Random numbers as values of the program: they depend on the world's seed, the module path, the step and the logical
// element, so they are equal on every mesh.
#pragma once

#include "karez/api/tensor.h"

namespace karez {

// Uniform numbers in [0, 1). Every call of the compiled function draws new numbers; gradients do not pass. dtype is a
// floating-point type.
Tensor random_uniform(Shape shape, DType dtype = DType::f32, SourceLine where = SourceLine::current());
// Normal numbers with mean 0 and standard deviation 1, by the Box-Muller transform of two uniform numbers.
Tensor random_normal(Shape shape, DType dtype = DType::f32, SourceLine where = SourceLine::current());

}  // namespace karez
