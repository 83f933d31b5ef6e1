// Random numbers as values of the program: they depend on the world's seed, the module path, the step and the logical
// element, so they are equal on every mesh.
#pragma once

#include "karez/api/tensor.h"

namespace karez {

// Uniform in [0, 1). Every call of the function draws new numbers; no gradient passes. dtype is f32 or f64.
Tensor random_uniform(Shape shape, DType dtype = DType::f32, SourceLine where = SourceLine::current());
// Normal with mean 0 and deviation 1, by the Box-Muller transform of two such uniform numbers.
Tensor random_normal(Shape shape, DType dtype = DType::f32, SourceLine where = SourceLine::current());

}  // namespace karez
