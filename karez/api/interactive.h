// Functions for computation outside of compiled functions: gradients, and printing of arrays.
#pragma once

#include <concepts>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/interactive_scope.h"

namespace karez {

// The result of value_and_grad.
struct ValueAndGradients {
  Tensor value;
  std::vector<Tensor> gradients;
};
// The values with respect to which gradients are taken: `parameters`, or if the list is empty, the arguments with the
// indices in `arguments`.
struct GradientOf {
  std::vector<Parameter> parameters = {};
  std::vector<int> arguments = {0};
};
// Computes f(arguments) and its gradients; value_and_grad calls this function.
ValueAndGradients value_and_gradients(const Body& f, const GradientOf& target, std::vector<Term> arguments,
                                      SourceLine where);

// Returns a function that computes f(x, ...), which must be a scalar, and its gradients, one for each requested
// parameter or argument: value_and_grad(f)(x, ...). It can be called inside and outside of compiled functions.
template <class F> auto value_and_grad(F f, GradientOf target = {}, SourceLine where = SourceLine::current()) {
  using Call = traced::Caller<F>;
  Body body = [f = std::move(f)](std::span<const Tensor> inputs) mutable { return traced::list(Call::run(f, inputs)); };
  return [body = std::move(body), target = std::move(target), where]<class... Arguments>(Arguments&&... arguments) {
    static_assert(Call::arguments < 0 || Call::arguments == sizeof...(Arguments),
                  "the number of arguments must equal the number of parameters of the function");
    return value_and_gradients(body, target, {Term(std::forward<Arguments>(arguments), where)...}, where);
  };
}

// Makes the tensor a leaf: computations with it are recorded, and `backward` returns the gradient with respect to it.
// The tensor must be a float tensor outside of a trace that is not the result of a recorded computation.
void require_gradient(Tensor& tensor, bool enabled = true);
// Returns whether the tensor is a leaf, or the result of a recorded computation that depends on a leaf or a parameter.
bool requires_gradient(const Tensor& tensor);
bool is_leaf(const Tensor& tensor);  // true for a tensor that was not computed from others with a record
// Identifies a leaf; null if the tensor is not a leaf that requires a gradient.
const void* leaf_identity(const Tensor& tensor);
// Makes the tensor a new value of this leaf, after a write.
void replace_leaf(Tensor& tensor, const Tensor& leaf);

// The leaves and parameters on which values depend, in the order in which the computation first used them.
struct GradientTargets {
  std::vector<Parameter> parameters;
  std::vector<Tensor> leaves;
};
GradientTargets gradient_targets(const std::vector<Tensor>& outputs);

// What `backward` keeps.
struct BackwardOptions {
  bool retain_graph = false;  // keeps the record of the computation, for another call
  bool create_graph = false;  // records the computation of the gradients too; the record is then kept
  bool zeros = true;  // the gradient of a target on which no output depends is zeros; otherwise an uninitialised tensor
};
// Returns the gradients of sum over i of sum(outputs[i] * seeds[i]) with respect to the targets: first those of the
// parameters, then those of the leaves, which may also be results of recorded computations. An output without a seed
// (an uninitialised tensor) must have one element; its seed is 1.
// Throws if the record was released by an earlier call, or if a parameter that the gradients need was written since.
std::vector<Tensor> backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                             const GradientTargets& targets, const BackwardOptions& options = {},
                             SourceLine where = SourceLine::current());

// Returns the gradient of a parameter on the mesh and in the layout in which its world stores the parameter; the
// gradient itself if the parameter is not stored. `backward` returns such gradients of parameters.
Tensor in_layout_of(const Parameter& parameter, const Tensor& gradient, SourceLine where = SourceLine::current());

// Returns tensor.array() for a caller that reads or waits for the array. With several ranks, all of them must call
// computed. If only some of them do, their calls throw and nothing is computed.
Array computed(const Tensor& tensor, SourceLine where = SourceLine::current());

// Formats an array as its type and layout, such as "f32[1024@data, 512]", followed by its elements. If a dimension has
// more than six elements, only the first three and the last three are shown. Waits for the call, and reads the global
// array.
std::string print(const Array& array);
std::ostream& operator<<(std::ostream& out, const Array& array);
// Formats a tensor: outside of a trace like its array, in a trace as its type.
std::string text_of(const Tensor& tensor, SourceLine where = SourceLine::current());
template <std::same_as<Tensor> T> std::string print(const T& tensor) { return text_of(tensor); }
template <std::same_as<Tensor> T> std::ostream& operator<<(std::ostream& out, const T& tensor) {
  return out << text_of(tensor);
}

}  // namespace karez
