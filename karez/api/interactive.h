// Computation outside of compiled functions: its mesh, gradients of functions of tensors, and arrays as text.
#pragma once

#include <concepts>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/compile.h"

namespace karez {

// During its lifetime, computations of this thread outside of compiled functions run on this mesh if none of their
// operands is an array on a mesh (only host arrays, numbers and parameters that no function has used); arrays of
// another world are errors. A computation that reads a parameter runs on the mesh that stores it. Scopes nest.
class Interactive {
 public:
  // train: dropout is active, and batch norm uses the batch's statistics.
  explicit Interactive(DeviceMesh mesh, bool train = true);
  ~Interactive();
  Interactive(const Interactive&) = delete;
  Interactive& operator=(const Interactive&) = delete;

  static const DeviceMesh* mesh();  // of the innermost scope; null without one
  static bool training();

 private:
  DeviceMesh mesh_;
  bool train_;
  const Interactive* before_;
};

// The result of value_and_grad.
struct ValueAndGradients {
  Tensor value;
  std::vector<Tensor> gradients;
};
// The variables of the gradients: the parameters, or if there are none the arguments of these numbers.
struct GradientOf {
  std::vector<Parameter> parameters = {};
  std::vector<int> arguments = {0};
};
ValueAndGradients value_and_gradients(const Body& f, const GradientOf& of, std::vector<Term> arguments,
                                      SourceLine where);

// value_and_grad(f)(x, ...): f(x, ...), a scalar, and its gradients, one for each requested parameter or argument.
// Works both outside of and inside a compiled function.
template <class F> auto value_and_grad(F f, GradientOf of = {}, SourceLine where = SourceLine::current()) {
  using Call = traced::Caller<F>;
  Body body = [f = std::move(f)](std::span<const Tensor> inputs) mutable { return traced::list(Call::run(f, inputs)); };
  return [body = std::move(body), of = std::move(of), where]<class... Arguments>(Arguments&&... arguments) {
    static_assert(Call::arguments < 0 || Call::arguments == sizeof...(Arguments),
                  "the number of arguments must be the function's");
    return value_and_gradients(body, of, {Term(std::forward<Arguments>(arguments), where)...}, where);
  };
}

// tensor.array(), to be read or waited for. With several ranks, all of them must call it; a call on only one rank is an
// error, and nothing is computed.
Array computed(const Tensor& tensor, SourceLine where = SourceLine::current());

// "f32[1024@data, 512]" and the numbers; a dimension with more than six elements shows the first three and the last
// three. Waits, and reads the whole array.
std::string print(const Array& array);
std::ostream& operator<<(std::ostream& out, const Array& array);
// Outside of a trace the text of its array, in a trace its type.
std::string text_of(const Tensor& tensor, SourceLine where = SourceLine::current());
template <std::same_as<Tensor> T> std::string print(const T& tensor) { return text_of(tensor); }
template <std::same_as<Tensor> T> std::ostream& operator<<(std::ostream& out, const T& tensor) {
  return out << text_of(tensor);
}

}  // namespace karez
