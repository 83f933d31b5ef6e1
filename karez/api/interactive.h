// Functions for computation outside of compiled functions: gradients of functions of tensors, and printing of arrays.
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
