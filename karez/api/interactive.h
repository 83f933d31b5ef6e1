// Computing outside of compiled functions: where it happens, gradients of functions of tensors, and arrays as text.
#pragma once

#include <concepts>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/compile.h"

namespace karez {

// While it lives, what this thread computes outside of compiled functions without an array among its operands (host
// arrays, numbers, parameters that nobody has used) lies on this mesh; arrays of another world are errors. What reads a
// parameter is computed where that is stored. Scopes nest.
class Interactive {
 public:
  explicit Interactive(DeviceMesh mesh,
                       bool train = true);  // train: dropout acts, and batch norm takes the batch's statistics
  ~Interactive();
  Interactive(const Interactive&) = delete;
  Interactive& operator=(const Interactive&) = delete;

  static const DeviceMesh* mesh();  // of the innermost; none: null
  static bool training();

 private:
  DeviceMesh mesh_;
  bool train_;
  const Interactive* before_;
};

// What value_and_grad gives.
struct ValueAndGradients {
  Tensor value;
  std::vector<Tensor> gradients;
};
// What gradients are taken of: the parameters, or without any the arguments of these numbers.
struct GradientOf {
  std::vector<Parameter> parameters = {};
  std::vector<int> arguments = {0};
};
ValueAndGradients value_and_gradients(const Body& f, const GradientOf& of, std::vector<Term> arguments,
                                      SourceLine where);

// value_and_grad(f)(x, ...): f(x, ...), a scalar, and its gradients, one for each parameter or argument asked for.
// Outside of a compiled function and in one.
template <class F> auto value_and_grad(F f, GradientOf of = {}, SourceLine where = SourceLine::current()) {
  using Call = traced::Caller<F>;
  Body body = [f = std::move(f)](std::span<const Tensor> inputs) mutable { return traced::list(Call::run(f, inputs)); };
  return [body = std::move(body), of = std::move(of), where]<class... Arguments>(Arguments&&... arguments) {
    static_assert(Call::arguments < 0 || Call::arguments == sizeof...(Arguments),
                  "as many arguments as the function takes");
    return value_and_gradients(body, of, {Term(std::forward<Arguments>(arguments), where)...}, where);
  };
}

// tensor.array(), to be read or waited for: with several ranks all of them ask for it, and where one alone does that is
// an error, after which nothing was computed.
Array computed(const Tensor& tensor, SourceLine where = SourceLine::current());

// "f32[1024@data, 512]" and the numbers; of a dimension above six the first three and the last three. Waits, and reads
// all of it.
std::string print(const Array& array);
std::ostream& operator<<(std::ostream& out, const Array& array);
// Outside of a trace as the array that it is; in one its type.
std::string text_of(const Tensor& tensor, SourceLine where = SourceLine::current());
template <std::same_as<Tensor> T> std::string print(const T& tensor) { return text_of(tensor); }
template <std::same_as<Tensor> T> std::ostream& operator<<(std::ostream& out, const T& tensor) {
  return out << text_of(tensor);
}

}  // namespace karez
