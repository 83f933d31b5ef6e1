// Functions of tensors, under the names and keywords of PyTorch where it has them.
#include "python/src/topics.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

// The line, for words without operands.
SourceLine made_here() {
  lie_somewhere();
  return user_line();
}

// None: every dimension; one; or several.
Ints dims_of(nb::handle object) {
  if (object.is_none()) return {};
  if (nb::isinstance<nb::int_>(object)) return {nb::cast<std::int64_t>(object)};
  return nb::cast<Ints>(object);
}

template <auto F> void def_unary(nb::module_& m, const char* name) {
  m.def(
      name, [](const Operand& input) { return Value(F(input)); }, "input"_a);
}
template <auto F> void def_binary(nb::module_& m, const char* name) {
  m.def(
      name, [](const Operand& input, const Operand& other) { return Value(F(input, other)); }, "input"_a, "other"_a);
}
template <auto F> void def_reduction(nb::module_& m, const char* name) {
  m.def(
      name, [](const Operand& input, nb::object dim, bool keepdim) { return Value(F(input, dims_of(dim), keepdim)); }, "input"_a,
      "dim"_a = nb::none(), "keepdim"_a = false);
}
template <auto F> void def_statistic(nb::module_& m, const char* name) {
  m.def(
      name,
      [](const Operand& input, nb::object dim, std::int64_t correction, bool keepdim) { return Value(F(input, dims_of(dim), keepdim, correction)); },
      "input"_a, "dim"_a = nb::none(), nb::kw_only(), "correction"_a = 1, "keepdim"_a = false);
}
template <auto F> void def_along(nb::module_& m, const char* name, int dim) {
  m.def(
      name, [](const Operand& input, int along) { return Value(F(input, along)); }, "input"_a, "dim"_a = dim);
}

nb::tuple pair_of(const Sorted& sorted) { return nb::make_tuple(Value(sorted.values), Value(sorted.indices)); }

void init_pointwise(nb::module_& m) {
  def_unary<&karez::exp>(m, "exp");
  def_unary<&karez::log>(m, "log");
  def_unary<&karez::sqrt>(m, "sqrt");
  def_unary<&karez::tanh>(m, "tanh");
  def_unary<&karez::sigmoid>(m, "sigmoid");
  def_unary<&karez::relu>(m, "relu");
  def_unary<&karez::gelu>(m, "gelu_erf");
  def_unary<&karez::gelu_tanh>(m, "gelu_tanh");
  def_unary<&karez::silu>(m, "silu");
  def_unary<&karez::abs>(m, "abs");
  def_unary<&karez::sin>(m, "sin");
  def_unary<&karez::cos>(m, "cos");
  def_unary<&karez::logical_not>(m, "logical_not");
  def_unary<&karez::stop_gradient>(m, "stop_gradient");
  using Two = Tensor (*)(Term, Term);
  def_binary<static_cast<Two>(&karez::operator+)>(m, "plus");
  def_binary<static_cast<Two>(&karez::operator-)>(m, "minus");
  def_binary<static_cast<Two>(&karez::operator*)>(m, "times");
  def_binary<static_cast<Two>(&karez::operator/)>(m, "over");
  def_binary<static_cast<Two>(&karez::operator<)>(m, "lt");
  def_binary<static_cast<Two>(&karez::operator<=)>(m, "le");
  def_binary<static_cast<Two>(&karez::operator>)>(m, "gt");
  def_binary<static_cast<Two>(&karez::operator>=)>(m, "ge");
  def_binary<&karez::pow>(m, "pow");
  def_binary<&karez::maximum>(m, "maximum");
  def_binary<&karez::minimum>(m, "minimum");
  def_binary<&karez::equal>(m, "eq");
  def_binary<&karez::not_equal>(m, "ne");
  def_binary<&karez::logical_and>(m, "logical_and");
  def_binary<&karez::logical_or>(m, "logical_or");
  m.def(
      "where", [](const Operand& condition, const Operand& input, const Operand& other) { return Value(where(condition, input, other)); },
      "condition"_a, "input"_a, "other"_a);
  m.def(
      "clip", [](const Operand& input, std::optional<double> min, std::optional<double> max) { return Value(clip(input, min, max)); }, "input"_a,
      "min"_a = nb::none(), "max"_a = nb::none());
  m.def(
      "cast", [](const Operand& input, DType dtype) { return Value(cast(input, dtype)); }, "input"_a, "dtype"_a);
  m.def(
      "apply", [](const std::string& op, const Operands& inputs) { return Value(apply(op, terms_of(inputs), {}, made_here())); }, "op"_a, "inputs"_a);
  m.def(
      "pointwise",
      [](const std::string& expr, const Operands& inputs) {
        return Value(apply("pointwise", terms_of(inputs), {{"expr", expr}}, made_here()));
      },
      "expr"_a, "inputs"_a);
}

void init_reductions(nb::module_& m) {
  def_reduction<&karez::sum>(m, "sum");
  def_reduction<&karez::mean>(m, "mean");
  def_reduction<&karez::max>(m, "amax");
  def_reduction<&karez::min>(m, "amin");
  def_reduction<&karez::any>(m, "any");
  def_reduction<&karez::all>(m, "all");
  def_statistic<&karez::var>(m, "var");
  def_statistic<&karez::stddev>(m, "std");
  def_along<&karez::arg_max>(m, "argmax", -1);
  def_along<&karez::arg_min>(m, "argmin", -1);
  def_along<static_cast<Tensor (*)(Term, int)>(&karez::softmax)>(m, "softmax", -1);
  def_along<static_cast<Tensor (*)(Term, int)>(&karez::log_softmax)>(m, "log_softmax", -1);
  def_along<&karez::cumsum>(m, "cumsum", -1);
  m.def(
      "norm", [](const Operand& input, double p, nb::object dim, bool keepdim) { return Value(norm(input, p, dims_of(dim), keepdim)); }, "input"_a,
      "p"_a = 2.0, "dim"_a = nb::none(), "keepdim"_a = false);
  m.def(
      "sort", [](const Operand& input, int dim, bool descending) { return pair_of(karez::sort(input, dim, descending)); }, "input"_a, "dim"_a = -1,
      "descending"_a = false);
  m.def(
      "argsort", [](const Operand& input, int dim, bool descending) { return Value(argsort(input, dim, descending)); }, "input"_a, "dim"_a = -1,
      "descending"_a = false);
  m.def(
      "topk", [](const Operand& input, std::int64_t k, int dim, bool largest) { return pair_of(topk(input, k, dim, largest)); }, "input"_a, "k"_a,
      "dim"_a = -1, "largest"_a = true);
}

void init_shapes(nb::module_& m) {
  def_binary<&karez::matmul>(m, "matmul");
  m.def(
      "einsum", [](const std::string& equation, const Operands& operands) { return Value(einsum(equation, terms_of(operands))); }, "equation"_a,
      "operands"_a);
  m.def(
      "reshape", [](const Operand& input, const Shape& shape) { return Value(reshape(input, shape)); }, "input"_a, "shape"_a);
  m.def(
      "permute", [](const Operand& input, const Ints& dims) { return Value(transpose(input, dims)); }, "input"_a, "dims"_a);
  m.def(
      "broadcast_to", [](const Operand& input, const Shape& size) { return Value(broadcast_to(input, size)); }, "input"_a, "size"_a);
  m.def(
      "slice", [](const Operand& input, const Ints& begin, const Ints& size) { return Value(slice(input, begin, size)); }, "input"_a, "begin"_a,
      "size"_a);
  m.def(
      "cat", [](const Operands& tensors, int dim) { return Value(concat(terms_of(tensors), dim)); }, "tensors"_a, "dim"_a = 0);
  m.def(
      "pad_both", [](const Operand& input, const Ints& low, const Ints& high, double value) { return Value(pad(input, low, high, value)); },
      "input"_a, "low"_a, "high"_a, "value"_a = 0.0);
  m.def(
      "take_rows", [](const Operand& table, const Operand& index) { return Value(gather(table, index)); }, "table"_a, "index"_a);
  m.def(
      "take_along_dim", [](const Operand& input, const Operand& indices, int dim) { return Value(take_along(input, indices, dim)); }, "input"_a,
      "indices"_a, "dim"_a = -1);
  m.def(
      "add_along",
      [](const Operand& indices, const Operand& updates, std::int64_t size, int dim) { return Value(add_along(indices, updates, size, dim)); },
      "indices"_a, "updates"_a, "size"_a, "dim"_a);
  m.def(
      "one_hot", [](const Operand& index, std::int64_t num_classes, DType dtype) { return Value(one_hot(index, num_classes, dtype)); }, "index"_a,
      "num_classes"_a, "dtype"_a = "float32");
  m.def(
      "full", [](const Shape& size, double fill_value, DType dtype) { return Value(full(size, fill_value, dtype, made_here())); }, "size"_a,
      "fill_value"_a, nb::kw_only(), "dtype"_a = "float32");
  m.def(
      "iota", [](const Shape& size, int dim, DType dtype) { return Value(iota(size, dim, dtype, made_here())); }, "size"_a, "dim"_a, "dtype"_a);
  m.def(
      "constant", [](nb::handle array) { return tracing() ? Value(constant(host_array(array), user_line())) : Value(Tensor(host_array(array))); },
      "array"_a);
  m.def(
      "with_layout", [](const Operand& input, const std::vector<std::string>& axes) { return Value(with_layout(input, axes)); }, "input"_a, "axes"_a);
}

}  // namespace

void init_functions(nb::module_& m) {
  init_pointwise(m);
  init_reductions(m);
  init_shapes(m);
}

}  // namespace karez::python
