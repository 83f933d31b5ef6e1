// Bindings of functions of tensors. They have PyTorch's names and keywords where PyTorch has such a function.
#include "python/src/bindings.h"
#include "python/src/value.h"
#include "python/src/writes.h"

namespace karez::python {
namespace {
using namespace nb::literals;

// The user's line, for functions without operands.
SourceLine creation_line() {
  ensure_default_device();
  return user_line();
}

std::size_t rank_of(const Term& x) {
  if (const auto* tensor = std::get_if<Tensor>(&x.value)) return tensor->shape().size();
  if (const auto* parameter = std::get_if<Parameter>(&x.value)) return parameter->shape().size();
  return 0;
}

// The dimensions of a transposed tensor, counted from 0; no dimensions mean that the last two are swapped.
Ints permutation_of(const Term& x, Ints dims) {
  const auto rank = static_cast<std::int64_t>(rank_of(x));
  if (dims.empty() && rank >= 2) {
    for (std::int64_t d = 0; d < rank; ++d) dims.push_back(d);
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  }
  return dims;
}

// Whether PyTorch accepts this dimension for a tensor without dimensions.
bool is_scalar_dim(const Term& x, std::int64_t dim) { return rank_of(x) == 0 && (dim == 0 || dim == -1); }

Ints dims_of(Dims dims, const Term& x) {
  return dims.values.size() == 1 && is_scalar_dim(x, dims.values[0]) ? Ints() : std::move(dims.values);
}

// Whether each element is nonzero; bools are unchanged.
Term to_bool(const Operand& operand) {
  Term x = operand;
  const auto* tensor = std::get_if<Tensor>(&x.value);
  const auto* parameter = std::get_if<Parameter>(&x.value);
  const bool holds = tensor != nullptr      ? tensor->dtype() == DType::b8
                     : parameter != nullptr ? parameter->dtype() == DType::b8
                                            : std::holds_alternative<bool>(x.value);
  return holds ? x : Term(not_equal(x, Term(0, x.where)), x.where);
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
      name,
      [](const Operand& input, Dims dim, bool keepdim) {
        const Term x = input;
        return Value(F(x, dims_of(std::move(dim), x), keepdim));
      },
      "input"_a, "dim"_a = nb::none(), "keepdim"_a = false);
}
template <auto F> void def_predicate(nb::module_& m, const char* name) {
  m.def(
      name,
      [](const Operand& input, Dims dim, bool keepdim) {
        const Term x = to_bool(input);
        return Value(F(x, dims_of(std::move(dim), x), keepdim));
      },
      "input"_a, "dim"_a = nb::none(), "keepdim"_a = false);
}
template <auto F> void def_statistic(nb::module_& m, const char* name) {
  m.def(
      name,
      [](const Operand& input, Dims dim, std::int64_t correction, bool keepdim) {
        const Term x = input;
        return Value(F(x, dims_of(std::move(dim), x), keepdim, correction));
      },
      "input"_a, "dim"_a = nb::none(), nb::kw_only(), "correction"_a = 1, "keepdim"_a = false);
}
template <auto F> void def_axis_function(nb::module_& m, const char* name, int dim) {
  m.def(
      name,
      [](const Operand& input, int along) {
        const Term x = input;
        return Value(is_scalar_dim(x, along) ? reshape(F(reshape(x, {1}), 0), {}) : F(x, along));
      },
      "input"_a, "dim"_a = dim);
}

nb::tuple pair_of(const Sorted& sorted) { return nb::make_tuple(Value(sorted.values), Value(sorted.indices)); }

// The functions that the rows of the pointwise table define, and the list of their names.
void init_pointwise_functions(nb::module_& m) {
  nb::list names;
  for (const PointwiseFunction& function : pointwise_functions()) {
    const std::string& name = function.name;  // exists until the program ends
    if (function.operands == 1) {
      m.def(
          name.c_str(),
          [&name](const Operand& input) {
            const Term x = input;
            return Value(call_op(name, {&x}));
          },
          "input"_a, function.doc.c_str());
    } else {
      m.def(
          name.c_str(),
          [&name](const Operand& input, const Operand& other) {
            const Term x = input, y = other;
            return Value(call_op(name, {&x, &y}));
          },
          "input"_a, "other"_a, function.doc.c_str());
    }
    names.append(name);
  }
  m.attr("pointwise_function_names") = names;
}

// Attributes of an op from Python: bools, integers, floats, strings and lists of integers.
Attrs attrs_from(const nb::dict& values) {
  Attrs attrs;
  for (auto [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    if (nb::isinstance<nb::bool_>(value)) attrs.set(name, nb::cast<bool>(value));
    else if (nb::isinstance<nb::int_>(value)) attrs.set(name, nb::cast<std::int64_t>(value));
    else if (nb::isinstance<nb::float_>(value)) attrs.set(name, nb::cast<double>(value));
    else if (nb::isinstance<nb::str>(value)) attrs.set(name, base::Attr(nb::cast<std::string>(value)));
    else attrs.set(name, base::Attr(nb::cast<Ints>(value)));
  }
  return attrs;
}

void init_pointwise(nb::module_& m) {
  def_unary<&karez::relu>(m, "relu");
  m.def(
      "logical_not", [](const Operand& input) { return Value(logical_not(to_bool(input))); }, "input"_a);
  using BinaryFunction = Tensor (*)(Term, Term);
  def_binary<static_cast<BinaryFunction>(&karez::operator+)>(m, "plus");
  def_binary<static_cast<BinaryFunction>(&karez::operator-)>(m, "minus");
  def_binary<static_cast<BinaryFunction>(&karez::operator*)>(m, "times");
  def_binary<static_cast<BinaryFunction>(&karez::operator/)>(m, "over");
  def_binary<static_cast<BinaryFunction>(&karez::operator<)>(m, "lt");
  def_binary<static_cast<BinaryFunction>(&karez::operator<=)>(m, "le");
  def_binary<static_cast<BinaryFunction>(&karez::operator>)>(m, "gt");
  def_binary<static_cast<BinaryFunction>(&karez::operator>=)>(m, "ge");
  def_binary<&karez::pow>(m, "pow");
  def_binary<&karez::maximum>(m, "maximum");
  def_binary<&karez::minimum>(m, "minimum");
  def_binary<&karez::equal>(m, "eq");
  def_binary<&karez::not_equal>(m, "ne");
  m.def(
      "logical_and",
      [](const Operand& input, const Operand& other) { return Value(logical_and(to_bool(input), to_bool(other))); },
      "input"_a, "other"_a);
  m.def(
      "logical_or",
      [](const Operand& input, const Operand& other) { return Value(logical_or(to_bool(input), to_bool(other))); },
      "input"_a, "other"_a);
  m.def(
      "where",
      [](const Operand& condition, const Operand& input, const Operand& other) {
        return Value(where(condition, input, other));
      },
      "condition"_a, "input"_a, "other"_a);
  m.def(
      "clip",
      [](const Operand& input, std::optional<double> min, std::optional<double> max) {
        return Value(clip(input, min, max));
      },
      "input"_a, "min"_a = nb::none(), "max"_a = nb::none());
  m.def(
      "cast", [](const Operand& input, DType dtype) { return Value(cast(input, dtype)); }, "input"_a, "dtype"_a);
  m.def(
      "call_op",
      [](const std::string& op, const Operands& inputs, const nb::dict& attrs) {
        const std::vector<Term> terms = terms_of(inputs);
        std::vector<const Term*> operands;
        for (const Term& term : terms) operands.push_back(&term);
        return Value(call_op(op, operands, attrs_from(attrs)));
      },
      "op"_a, "inputs"_a, "attrs"_a);
  m.def(
      "apply",
      [](const std::string& op, const Operands& inputs) {
        return Value(apply(op, terms_of(inputs), {}, creation_line()));
      },
      "op"_a, "inputs"_a);
  m.def(
      "pointwise",
      [](const std::string& expr, const Operands& inputs, const std::string& slopes) {
        if (slopes.empty()) return Value(pointwise(expr, terms_of(inputs)));
        return Value(apply("pointwise", terms_of(inputs), {{"expr", expr}, {"slopes", slopes}}, creation_line()));
      },
      "expr"_a, "inputs"_a, "slopes"_a = "");
}

void init_reductions(nb::module_& m) {
  def_reduction<&karez::sum>(m, "sum");
  def_reduction<&karez::mean>(m, "mean");
  def_reduction<&karez::max>(m, "amax");
  def_reduction<&karez::min>(m, "amin");
  def_predicate<&karez::any>(m, "any");
  def_predicate<&karez::all>(m, "all");
  def_statistic<&karez::var>(m, "var");
  def_statistic<&karez::stddev>(m, "std");
  def_axis_function<&karez::arg_max>(m, "argmax", -1);
  def_axis_function<&karez::arg_min>(m, "argmin", -1);
  def_axis_function<static_cast<Tensor (*)(Term, int)>(&karez::softmax)>(m, "softmax", -1);
  def_axis_function<static_cast<Tensor (*)(Term, int)>(&karez::log_softmax)>(m, "log_softmax", -1);
  def_axis_function<&karez::cumsum>(m, "cumsum", -1);
  m.def(
      "norm",
      [](const Operand& input, double p, Dims dim, bool keepdim) {
        const Term x = input;
        return Value(norm(x, p, dims_of(std::move(dim), x), keepdim));
      },
      "input"_a, "p"_a = 2.0, "dim"_a = nb::none(), "keepdim"_a = false);
  m.def(
      "sort",
      [](const Operand& input, int dim, bool descending) { return pair_of(karez::sort(input, dim, descending)); },
      "input"_a, "dim"_a = -1, "descending"_a = false);
  m.def(
      "argsort", [](const Operand& input, int dim, bool descending) { return Value(argsort(input, dim, descending)); },
      "input"_a, "dim"_a = -1, "descending"_a = false);
  m.def(
      "topk",
      [](const Operand& input, std::int64_t k, int dim, bool largest) { return pair_of(topk(input, k, dim, largest)); },
      "input"_a, "k"_a, "dim"_a = -1, "largest"_a = true);
}

void init_shapes(nb::module_& m) {
  def_binary<&karez::matmul>(m, "matmul");
  m.def(
      "einsum",
      [](const std::string& equation, const Operands& operands) { return Value(einsum(equation, terms_of(operands))); },
      "equation"_a, "operands"_a);
  m.def(
      "reshape",
      [](const Operand& input, const Shape& shape) {
        return make_view(input, {ViewStep::Kind::shape, shape});
      },
      "input"_a, "shape"_a);
  m.def(
      "permute",
      [](const Operand& input, const Ints& dims) {
        return make_view(input, {ViewStep::Kind::permutation, {}, permutation_of(input, dims)});
      },
      "input"_a, "dims"_a);
  m.def(
      "broadcast_to",
      [](const Operand& input, const Shape& size) {
        return make_view(input, {ViewStep::Kind::expansion, size});
      },
      "input"_a, "size"_a);
  m.def(
      "slice",
      [](const Operand& input, const Ints& begin, const Ints& size) {
        return make_view(input, {ViewStep::Kind::slice, size, begin, Ints(begin.size(), 1)});
      },
      "input"_a, "begin"_a, "size"_a);
  m.def(
      "cat", [](const Operands& tensors, int dim) { return Value(concat(terms_of(tensors), dim)); }, "tensors"_a,
      "dim"_a = 0);
  m.def(
      "pad_both",
      [](const Operand& input, const Ints& low, const Ints& high, double value) {
        return Value(pad(input, low, high, value));
      },
      "input"_a, "low"_a, "high"_a, "value"_a = 0.0);
  m.def(
      "take_rows", [](const Operand& table, const Operand& index) { return Value(gather(table, index)); }, "table"_a,
      "index"_a);
  m.def(
      "take_along_dim",
      [](const Operand& input, const Operand& indices, int dim) { return Value(take_along(input, indices, dim)); },
      "input"_a, "indices"_a, "dim"_a = -1);
  m.def(
      "add_along",
      [](const Operand& indices, const Operand& updates, std::int64_t size, int dim) {
        return Value(add_along(indices, updates, size, dim));
      },
      "indices"_a, "updates"_a, "size"_a, "dim"_a);
  m.def(
      "one_hot",
      [](const Operand& index, std::int64_t num_classes, DType dtype) {
        return Value(one_hot(index, num_classes, dtype));
      },
      "index"_a, "num_classes"_a, "dtype"_a = "int64");
  m.def(
      "full",
      [](const Shape& size, double fill_value, DType dtype) {
        return Value(full(size, fill_value, dtype, creation_line()));
      },
      "size"_a, "fill_value"_a, nb::kw_only(), "dtype"_a = "float32");
  m.def(
      "iota", [](const Shape& size, int dim, DType dtype) { return Value(iota(size, dim, dtype, creation_line())); },
      "size"_a, "dim"_a, "dtype"_a);
  m.def(
      "constant",
      [](nb::handle array) {
        if (const Tensor* input = captured_input(array)) return Value(*input);
        return tracing() ? Value(constant(host_array(array), user_line())) : Value(Tensor(host_array(array)));
      },
      "array"_a);
  m.def(
      "constant_without_copy",
      [](nb::handle array) {
        return tracing() ? Value(constant(host_array(array), user_line())) : Value(Tensor(borrowed_array(array)));
      },
      "array"_a);
  m.def(
      "constant_of_dlpack",
      [](const nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>& array) {
        const HostArray halves = half_array_from_dlpack(array);
        return tracing() ? Value(constant(halves, user_line())) : Value(Tensor(halves));
      },
      "array"_a);
  m.def(
      "with_layout",
      [](const Operand& input, const std::vector<std::string>& axes) { return Value(with_layout(input, axes)); },
      "input"_a, "axes"_a);
}

}  // namespace

void init_functions(nb::module_& m) {
  init_pointwise_functions(m);
  init_pointwise(m);
  init_reductions(m);
  init_shapes(m);
}

}  // namespace karez::python
