// Tensors, the operands that functions of tensors take, and functions of their gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "karez/api/names.h"
#include "karez/api/parameter.h"
#include "karez/api/source_line.h"

namespace karez {

template <class Number>
concept Arithmetic = std::is_arithmetic_v<Number>;

class Array;
struct LazyValue;

// In a trace, a tensor is a value of the program that is being traced: it has a type but no bytes, and is valid only on
// the thread of the trace while the trace exists. Outside of a trace, a tensor is an array, host bytes, a number (f32,
// i64 or bool), or the result of functions of such values. Such functions record the computation and return
// immediately. The computation runs, in the same way as a compiled function, when `array` or a function that needs the
// bytes is called (interactive.h). Any thread may use a tensor outside of a trace.
struct Tensor {
  ValueId id;
  std::uint64_t trace = 0;  // the number of the tensor's trace
  TensorType type;
  std::shared_ptr<LazyValue> lazy = {};  // the value outside of a trace; null in a trace
  // While a copy of this handle exists, a computation that needs this tensor as an intermediate value also stores the
  // tensor's array in `lazy`.
  std::shared_ptr<const void> handle = {};

  Tensor();
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;
  ~Tensor();
  Tensor(ValueId id, std::uint64_t trace, TensorType type);
  Tensor(const Array& array);
  Tensor(const HostArray& shared);  // copies the bytes
  Tensor(HostArray&& owned);        // takes over the bytes if `owned` is their only owner, otherwise copies them
  template <Arithmetic Number> Tensor(Number number) {
    if constexpr (std::is_same_v<Number, bool>) *this = Tensor(HostArray::of<bool>({}, {number}));
    else if constexpr (std::is_integral_v<Number>)
      *this = Tensor(HostArray::of<std::int64_t>({}, {static_cast<std::int64_t>(number)}));
    else *this = Tensor(HostArray::of<float>({}, {static_cast<float>(number)}));
  }

  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  int rank() const { return type.rank(); }
  std::int64_t size(int dimension) const;  // a negative dimension counts from the end

  // These functions are for tensors outside of a trace. `array` starts the computation and does not wait. `read` waits,
  // and throws the error of a failed computation.
  Array array(SourceLine where = SourceLine::current()) const;
  HostArray read(SourceLine where = SourceLine::current()) const;
  // For a tensor that was made from host bytes, returns these bytes, which must not be written. For any other tensor,
  // the result is invalid.
  HostArray host_array() const;
  // Returns the only element, as a number of type T.
  template <class T = double> T item(SourceLine where = SourceLine::current()) const {
    require(type.count() == 1, "item: the tensor must have exactly one element, got ", type);
    const HostArray element = read(where);
    return with_type(element.dtype(), [&]<class Element>() { return static_cast<T>(element.data<Element>()[0]); });
  }
};

// Returns the line of the user's program that made a tensor of the current trace. Returns "" for inputs of the program
// and for tensors outside of a trace.
std::string line_of(const Tensor& tensor);

// The result of a compiled function that is called with tensors: the tensors that its body returns.
struct Tensors {
  std::vector<Tensor> list;

  operator Tensor() const { return only(); }
  const Tensor& only() const;  // the only tensor; throws if the function did not return exactly one
  const Tensor& operator[](std::size_t i) const { return list.at(i); }
  std::size_t size() const { return list.size(); }
};

// An operand: a tensor (or a value convertible to one), a parameter or a number, with the line of the user's program.
// Functions take operands of this type. The conversion happens at the call, so that errors can name the line of the
// call.
struct Term {
  std::variant<Tensor, Parameter, bool, std::int64_t, double> value;
  SourceLine where;
  // Marks a tensor f64[] or i64[] that represents a host number and is promoted as a number; `wide` means that the
  // number does not fit in an i32.
  enum class AsNumber : std::uint8_t { no, yes, wide };
  AsNumber as_number = AsNumber::no;

  Term(const Term&);
  Term(Term&&) noexcept;
  Term& operator=(const Term&);
  Term& operator=(Term&&) noexcept;
  ~Term();
  Term(const Tensor& tensor, SourceLine line = SourceLine::current());
  Term(Tensor&& tensor,
       SourceLine line = SourceLine::current());  // the tensor's value is then not kept for later reads
  Term(const Array& array, SourceLine line = SourceLine::current());
  Term(HostArray array, SourceLine line = SourceLine::current());
  Term(Parameter parameter, SourceLine line = SourceLine::current());
  Term(const Tensors& tensors, SourceLine line = SourceLine::current());
  template <Arithmetic Number> Term(Number number, SourceLine line = SourceLine::current()) : where(line) {
    if constexpr (std::is_same_v<Number, bool>) value = number;
    else if constexpr (std::is_integral_v<Number>) value = static_cast<std::int64_t>(number);
    else value = static_cast<double>(number);
  }

  bool is_number() const { return value.index() >= 2; }
  bool stands_for_number() const { return as_number != AsNumber::no; }
};

// Arithmetic broadcasts as in NumPy and promotes as in PyTorch: bool < integers < floats. A number or a scalar tensor
// does not widen a tensor of the same kind. Dividing integers gives f32.
Tensor operator+(Term a, Term b);
Tensor operator-(Term a, Term b);
Tensor operator*(Term a, Term b);
Tensor operator/(Term a, Term b);
Tensor operator-(Term x);
Tensor operator<(Term a, Term b);
Tensor operator<=(Term a, Term b);
Tensor operator>(Term a, Term b);
Tensor operator>=(Term a, Term b);

// A function that sees the gradient of a tensor. It returns another one of the same type, which replaces it, or an
// uninitialised tensor.
using TensorHook = std::function<Tensor(const Tensor& gradient)>;
// Gets the results of a function and their gradients, and returns the gradients of its inputs, see custom_function.
using CustomBackward =
    std::function<std::vector<Tensor>(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients)>;

// Functions that see and replace gradients at the inputs and outputs of a part of a program, such as a module. Each
// returns gradients of the same types; a tensor without a value is a zero.
struct ModuleHook {
  std::vector<Tensor> inputs;  // copies that adjacent_copies returned, which the part reads
  std::function<std::vector<Tensor>(const std::vector<Tensor>& gradients)> replace_inputs;
  CustomBackward replace_outputs;
  // If this list is not empty, replace_outputs returns the gradients of these tensors instead of those of the outputs,
  // and gets an uninitialised tensor for an output on which the loss does not depend.
  std::vector<Tensor> operands = {};
};

}  // namespace karez
