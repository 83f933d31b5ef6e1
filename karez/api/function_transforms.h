// Functions of functions: vmap, which computes a function of one element for all elements of a batch at once, and
// vector_jacobian, from which vjp and jvp are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "karez/api/interactive.h"

namespace karez {

// Random numbers in the body: an error, or the same or different ones for the elements of the batch.
enum class MappedRandomness { error, same, different };

using VmapBody = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// How the elements of a batch are computed.
struct VmapOptions {
  MappedRandomness randomness = MappedRandomness::error;
  std::int64_t chunk_size = 0;  // the number of elements that are computed at once; 0 means all
};

// The results for all elements, in dimension 0. A result that does not depend on an element has no such dimension.
struct MappedResults {
  std::vector<Tensor> values;
  std::vector<bool> is_mapped;
};

// An operand, and its dimension that lists the elements; a negative one counts from the end.
struct MappedOperand {
  Term value;
  std::int64_t dim = 0;
};

// Computes body(elements of xs) for all elements. The body is traced once, with tensors that lack the dimension of the
// batch. It may read other values of the enclosing program, but must not update variables. An op of the body that has
// no rule for a batch is an error with its name and the user's line (karez/ops/vmap_rules.h).
MappedResults vmap(const VmapBody& body, const std::vector<MappedOperand>& xs, VmapOptions options = {},
                   SourceLine where = SourceLine::current());

// Whether a program, or the body of a scan or vmap outside of compiled functions, is being traced.
bool in_trace();

// In a program that is being traced, returns the gradients of the sum of outputs[i] * seeds[i] with respect to tensors.
// Each seed has the type of its output. The gradients depend on the seeds, so they can be differentiated with respect
// to them, but nothing is added if a seed depends on `wrt`. The loss scale does not apply.
std::vector<Tensor> vector_jacobian(const std::vector<Term>& outputs, const std::vector<Term>& seeds,
                                    const std::vector<Tensor>& wrt);

// The same with respect to parameters and tensors, in this order, with the loss scale. The result is an uninitialised
// tensor for a target on which no output depends.
std::vector<Tensor> vector_jacobian(const std::vector<Term>& outputs, const std::vector<Term>& seeds,
                                    const GradientTargets& targets);

// Whether a gradient of `value` flows to `source`; false if one of them is no value of the program that is being
// traced.
bool depends_on(const Term& value, const Term& source);

// The outputs of the function that is being traced, beginning with this one, are gradients of these parameters. A call
// returns them on the mesh and in the layout in which the world stores the parameter.
void mark_gradients(std::size_t first_output, const std::vector<Parameter>& parameters);

}  // namespace karez
