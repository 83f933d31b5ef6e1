// vector_jacobian: gradients of weighted outputs, from which functions of functions (vjp, jvp) are made.
#pragma once

#include <vector>

#include "karez/api/functions.h"

namespace karez {

// In a program that is being traced, returns the gradients of the sum of outputs[i] * seeds[i] with respect to tensors.
// Each seed has the type of its output. The gradients depend on the seeds, so they can be differentiated with respect
// to them, but nothing is added if a seed depends on `wrt`. The loss scale does not apply.
std::vector<Tensor> vector_jacobian(const std::vector<Term>& outputs, const std::vector<Term>& seeds,
                                    const std::vector<Tensor>& wrt);

}  // namespace karez
