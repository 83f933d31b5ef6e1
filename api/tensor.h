// What users compute with: tensors of the program being traced, parameters, and the operands that functions take.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "api/names.h"

namespace karez {

using SourceLine = std::source_location;

// A value of the program that is being traced: it has a type, no bytes. Exists while its trace does, and only on that trace's thread.
struct Tensor {
  ValueId id;
  std::uint64_t trace = 0;  // number of the trace it belongs to
  TensorType type;

  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  int rank() const { return type.rank(); }
  std::int64_t size(int dimension) const;  // may count from the end
};

// How a variable is born: nodes of a small graph of its own that make its first value. `state` is i64[2] = (the world's seed, 0).
using Initialiser = std::function<ValueId(Builder&, const TensorType&, const std::string& name, ValueId state)>;
Initialiser constant_init(double value);
// Uniform in [-bound, bound); numbers follow the variable's name and the logical element, so they are the same on every mesh.
Initialiser uniform_init(double bound);

// A trained weight, or other state that outlives a call ("variable" in the graph). Copies are the same parameter.
class Parameter {
 public:
  Parameter() = default;
  Parameter(std::string name, TensorType type, Initialiser init);

  const std::string& name() const { return info_->name; }
  const TensorType& type() const { return info_->type; }
  const Shape& shape() const { return info_->type.shape; }
  DType dtype() const { return info_->type.dtype; }
  const Initialiser& init() const { return info_->init; }
  bool operator==(const Parameter&) const = default;

 private:
  struct Info {
    std::string name;
    TensorType type;
    Initialiser init;
  };
  std::shared_ptr<const Info> info_;
};

template <class Number>
concept Arithmetic = std::is_arithmetic_v<Number>;

// An operand: a tensor, a parameter or a number, with the line of the user's program on which it was written. Functions take these; the
// conversion happens where the call stands, and so errors can quote it.
struct Term {
  std::variant<Tensor, Parameter, bool, std::int64_t, double> value;
  SourceLine where;

  Term(Tensor tensor, SourceLine line = SourceLine::current()) : value(std::move(tensor)), where(line) {}
  Term(Parameter parameter, SourceLine line = SourceLine::current()) : value(std::move(parameter)), where(line) {}
  template <Arithmetic Number> Term(Number number, SourceLine line = SourceLine::current()) : where(line) {
    if constexpr (std::is_same_v<Number, bool>) value = number;
    else if constexpr (std::is_integral_v<Number>) value = static_cast<std::int64_t>(number);
    else value = static_cast<double>(number);
  }

  bool is_number() const { return value.index() >= 2; }
};

// Arithmetic broadcasts as NumPy does and promotes as PyTorch does: bool < integers < floats; a number, and within one kind a scalar
// tensor, never widens a tensor. Dividing integers gives f32.
Tensor operator+(Term a, Term b);
Tensor operator-(Term a, Term b);
Tensor operator*(Term a, Term b);
Tensor operator/(Term a, Term b);
Tensor operator-(Term x);
Tensor operator<(Term a, Term b);
Tensor operator<=(Term a, Term b);
Tensor operator>(Term a, Term b);
Tensor operator>=(Term a, Term b);

}  // namespace karez
