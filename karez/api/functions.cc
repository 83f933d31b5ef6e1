// Implements functions of tensors. Each function promotes its operands and records source lines, and then calls
// builders or compositions of ops.
#include "karez/api/functions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "karez/api/namespace.h"
#include "karez/api/trace/axes.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/promotion.h"
#include "karez/api/trace/shared_call.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/attention.h"
#include "karez/ops/compose.h"
#include "karez/ops/integers.h"
#include "karez/ops/norms.h"
#include "karez/sbp/partition_spec.h"

namespace karez {
namespace {

Tensor binary(const Term& a, const Term& b, std::string_view op) {
  return at_line_shared(a.where, CallKey("binary", op), {&a, &b}, [&](Trace& t) {
    DType dtype = promoted(t, {&a, &b});
    if (op == "div" && !is_float(dtype)) dtype = DType::f32;
    if (is_float(dtype) && are_numbers({&a, &b})) dtype = DType::f64;
    // These are separate statements, because the order of evaluation must be the same on every rank.
    ValueId left = as(t, a, dtype), right = as(t, b, dtype);
    return t.tensor(dtype == DType::b8 ? build::binary_of_bools(t.builder, op, left, right)
                                       : build::binary(t.builder, op, left, right));
  });
}

Tensor on_bools(const Term& a, const Term& b, std::string_view op) {
  return at_line_shared(a.where, CallKey("bools", op), {&a, &b}, [&](Trace& t) {
    ValueId left = t.value(a, DType::b8), right = t.value(b, DType::b8);
    return t.tensor(build::binary(t.builder, op, left, right));
  });
}

}  // namespace

Tensor operator+(Term a, Term b) { return binary(a, b, "add"); }
Tensor operator-(Term a, Term b) { return binary(a, b, "sub"); }
Tensor operator*(Term a, Term b) { return binary(a, b, "mul"); }
Tensor operator/(Term a, Term b) { return binary(a, b, "div"); }
Tensor operator-(Term x) {
  return at_line_shared(x.where, CallKey("neg"), {&x}, [&](Trace& t) {
    const ValueId id = t.value(x, t.dtype_of(x));
    require(ErrorKind::type, t.graph.type(id).dtype != DType::b8, "neg: expected numbers, got ", t.graph.type(id),
            "; use logical_not for bools");
    return t.tensor(build::neg(t.builder, id));
  });
}
Tensor operator<(Term a, Term b) { return binary(a, b, "lt"); }
Tensor operator<=(Term a, Term b) { return binary(a, b, "le"); }
Tensor operator>(Term a, Term b) { return binary(a, b, "gt"); }
Tensor operator>=(Term a, Term b) { return binary(a, b, "ge"); }

Tensor relu(Term x) {
  return at_line_shared(x.where, CallKey("relu"), {&x}, [&](Trace& t) {
    const ValueId id = t.value(x, t.dtype_of(x));
    const DType dtype = t.graph.type(id).dtype;
    if (is_float(dtype)) return t.tensor(build::relu(t.builder, id));
    require(ErrorKind::type, dtype != DType::b8, "relu: expected numbers, got ", t.graph.type(id), "; cast it first");
    return t.tensor(build::binary(t.builder, "max", id, build::full_like(t.builder, id, 0)));
  });
}
Tensor pow(Term x, Term y) {
  return at_line(x.where, [&](Trace& t) {
    DType dtype = promoted(t, {&x, &y});
    if (is_float(dtype) && are_numbers({&x, &y})) dtype = DType::f64;
    const ValueId base = as(t, x, dtype);
    const auto* integer = std::get_if<std::int64_t>(&y.value);
    const auto* real = std::get_if<double>(&y.value);
    if (is_float(dtype) && (integer != nullptr || real != nullptr))
      return t.tensor(build::pow_of_floats(t.builder, base, real != nullptr ? *real : static_cast<double>(*integer)));
    const ValueId power = as(t, y, dtype);
    if (is_float(dtype)) return t.tensor(build::binary(t.builder, "pow", base, power));
    require(ErrorKind::type, dtype != DType::b8, "pow: expected numbers, got ", t.graph.type(base), " and ",
            t.graph.type(power), "; cast them first");
    require(integer == nullptr || *integer >= 0, "pow: ", t.graph.type(base), " to the power ",
            integer == nullptr ? 0 : *integer, " is not an integer; cast the base to a float first");
    return t.tensor(build::pow_of_integers(t.builder, base, power));
  });
}
Tensor maximum(Term x, Term y) { return binary(x, y, "max"); }
Tensor minimum(Term x, Term y) { return binary(x, y, "min"); }
Tensor equal(Term x, Term y) { return binary(x, y, "eq"); }
Tensor not_equal(Term x, Term y) { return binary(x, y, "ne"); }
Tensor logical_and(Term x, Term y) { return on_bools(x, y, "and"); }
Tensor logical_or(Term x, Term y) { return on_bools(x, y, "or"); }
Tensor logical_not(Term x) { return call_op("not", {&x}); }

Tensor select(Term condition, Term x, Term y) {
  return at_line_shared(condition.where, CallKey("where"), {&condition, &x, &y}, [&](Trace& t) {
    DType dtype = promoted(t, {&x, &y});
    ValueId c = t.value(condition, DType::b8), a = as(t, x, dtype), b = as(t, y, dtype);
    Shape shape = build::broadcast_shape(t.graph.type(c).shape,
                                         build::broadcast_shape(t.graph.type(a).shape, t.graph.type(b).shape));
    for (ValueId* value : {&c, &a, &b}) *value = build::broadcast_to(t.builder, *value, shape);
    return t.tensor(build::select(t.builder, c, a, b));
  });
}

Tensor clip(Term x, std::optional<double> low, std::optional<double> high) {
  return at_line_shared(x.where, CallKey("clip", low, high), {&x},
                        [&](Trace& t) { return t.tensor(build::clip(t.builder, t.value(x), low, high)); });
}

Tensor cast(Term x, DType to) {
  return at_line_shared(x.where, CallKey("cast", to), {&x}, [&](Trace& t) { return t.tensor(as(t, x, to)); });
}

Tensor reshape(Term x, Shape shape) {
  return at_line_shared(x.where, CallKey("reshape", shape), {&x}, [&](Trace& t) {
    ValueId id = t.value(x);
    std::int64_t known_count = 1, count = t.graph.type(id).count();
    for (auto size : shape)
      if (size != -1) known_count = checked_mul(known_count, size);
    auto unknown = std::find(shape.begin(), shape.end(), -1);
    if (unknown != shape.end()) {
      require(ErrorKind::shape, std::count(shape.begin(), shape.end(), -1) == 1, "reshape to ", shape,
              ": only one size may be -1");
      require(ErrorKind::shape, known_count > 0 && count % known_count == 0, "reshape: the ", count, " elements of ",
              t.graph.type(id), " do not fit shape ", shape);
      *unknown = count / known_count;
    }
    return t.tensor(build::reshape(t.builder, id, shape));
  });
}

Tensor flatten(Term x, int first) {
  return at_line_shared(x.where, CallKey("flatten", first), {&x}, [&](Trace& t) {
    ValueId id = t.value(x);
    const Shape& shape = t.graph.type(id).shape;
    require(ErrorKind::shape, first >= 0 && first < static_cast<int>(shape.size()), "flatten: dimension ", first,
            " of ", t.graph.type(id), " does not exist");
    Shape out(shape.begin(), shape.begin() + first);
    out.push_back(count_of(Shape(shape.begin() + first, shape.end())));
    return t.tensor(build::reshape(t.builder, id, out));
  });
}

Tensor transpose(Term x, Ints permutation) {
  return at_line_shared(x.where, CallKey("transpose", permutation), {&x}, [&](Trace& t) {
    ValueId id = t.value(x);
    auto rank = t.graph.type(id).shape.size();
    if (permutation.empty()) {
      require(ErrorKind::shape, rank >= 2, "transpose: ", t.graph.type(id), " has fewer than two dimensions");
      permutation.resize(rank);
      std::iota(permutation.begin(), permutation.end(), 0);
      std::swap(permutation[rank - 1], permutation[rank - 2]);
    }
    return t.tensor(build::transpose(t.builder, id, permutation));
  });
}

Tensor broadcast_to(Term x, Shape shape) {
  return at_line_shared(x.where, CallKey("broadcast_to", shape), {&x}, [&](Trace& t) {
    return t.tensor(build::broadcast_to(t.builder, t.value(x, t.dtype_of(x)), shape));
  });
}
Tensor slice(Term x, Ints begin, Ints size) {
  return at_line_shared(x.where, CallKey("slice", begin, size), {&x},
                        [&](Trace& t) { return t.tensor(build::slice(t.builder, t.value(x), begin, size)); });
}
Tensor concat(std::vector<Term> xs, int axis) {
  require(!xs.empty(), "concat: at least one tensor is required");
  return at_line(xs[0].where, [&](Trace& t) {
    std::vector<ValueId> ids;
    for (const auto& x : xs) ids.push_back(t.value(x));
    return t.tensor(
        build::concat(t.builder, ids, static_cast<int>(axes_or_all({axis}, t.graph.type(ids[0]).rank())[0])));
  });
}
Tensor pad(Term x, Ints low, Ints high, double value) {
  return at_line_shared(x.where, CallKey("pad", low, high, value), {&x},
                        [&](Trace& t) { return t.tensor(build::pad(t.builder, t.value(x), low, high, value)); });
}
Tensor gather(Term table, Term index) {
  return at_line_shared(table.where, CallKey("gather"), {&table, &index}, [&](Trace& t) {
    ValueId rows = t.value(table), indices = t.value(index, DType::i64);
    const DType dtype = t.graph.type(rows).dtype;
    return t.tensor(
        build::cast(t.builder, build::gather(t.builder, build::as_numbers(t.builder, rows), indices), dtype));
  });
}
Tensor one_hot(Term index, std::int64_t depth, DType dtype) {
  return at_line_shared(index.where, CallKey("one_hot", depth, dtype), {&index}, [&](Trace& t) {
    return t.tensor(build::one_hot(t.builder, t.value(index, DType::i64), depth, dtype));
  });
}

Tensor full(Shape shape, double value, DType dtype, SourceLine where) {
  return at_line(where, [&](Trace& t) {
    if (t.expression == nullptr) return t.tensor(build::full(t.builder, dtype, shape, value));
    // The value is an input, so that one program serves all values.
    return t.tensor(build::broadcast_to(t.builder, t.value(Term(value, where), dtype), shape));
  });
}
Tensor iota(Shape shape, int axis, DType dtype, SourceLine where) {
  return at_line(where, [&](Trace& t) { return t.tensor(build::iota(t.builder, {dtype, shape}, axis)); });
}

Tensor constant(const HostArray& value, SourceLine where) {
  return at_line(where, [&](Trace& t) {
    require(value.valid(), "constant: the array is uninitialised");
    return t.tensor(build::constant(t.builder, value.type(),
                                    std::span(value.bytes(), static_cast<std::size_t>(value.type().bytes()))));
  });
}

void update(const Parameter& parameter, Term value) {
  at_line(value.where, [&](Trace& t) {
    t.update(parameter, t.value(value, parameter.dtype()));
    return 0;
  });
}

bool tracing() { return Trace::open() != nullptr && Trace::open()->expression == nullptr; }
bool is_of_current_body(const Tensor& tensor) {
  return Trace::open() != nullptr && tensor.trace == Trace::open()->number();
}

std::vector<Parameter> parameters_of(Term value) {
  return at_line(value.where, [&](Trace& t) { return t.ancestor_parameters(t.value(value)); });
}

std::vector<Tensor> apply_all(std::string_view op, std::vector<Term> inputs, Attrs attrs, SourceLine where) {
  return at_line(where, [&](Trace& t) {
    std::vector<const Term*> terms;
    for (const auto& input : inputs) terms.push_back(&input);
    std::vector<ValueId> ids;
    for (const auto& input : inputs) ids.push_back(t.value(input, promoted(t, terms)));
    std::vector<Tensor> out;
    for (ValueId id : t.builder.add(op, ids, std::move(attrs))) out.push_back(t.tensor(id));
    return out;
  });
}

Tensor apply(std::string_view op, std::vector<Term> inputs, Attrs attrs, SourceLine where) {
  auto out = apply_all(op, std::move(inputs), std::move(attrs), where);
  return at_line(where, [&](Trace&) {
    require(out.size() == 1, "apply: op '", op, "' has ", out.size(), " results; use apply_all");
    return std::move(out[0]);
  });
}

Tensor pointwise(std::string_view expr, std::vector<Term> operands) {
  require(!operands.empty(), "pointwise '", expr, "': at least one operand is required");
  return at_line(operands[0].where, [&](Trace& t) {
    std::vector<const Term*> terms;
    for (const Term& operand : operands) terms.push_back(&operand);
    const DType dtype = promoted(t, terms);
    std::vector<ValueId> ids;
    Shape shape;
    for (const Term& operand : operands) {
      ids.push_back(as(t, operand, dtype));
      shape = build::broadcast_shape(shape, t.graph.type(ids.back()).shape);
    }
    for (ValueId& id : ids) id = build::broadcast_to(t.builder, id, shape);
    return t.tensor(build::pointwise(t.builder, expr, ids));
  });
}

Tensor with_layout(Term x, std::vector<std::string> axes) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x, t.dtype_of(x));
    if (t.expression != nullptr) t.expression->require_mesh("with_layout");
    const auto* parameter = std::get_if<Parameter>(&x.value);
    // A parameter uses the mesh that stores it. Any other value uses the mesh that a scope or rule sets, or else the
    // mesh that it already has.
    const int mesh = parameter == nullptr && t.builder.mesh != 0 ? t.builder.mesh : t.resolve_mesh(id);
    ScopedValue mesh_scope(t.builder.mesh, mesh);
    Layout layout = layout_from(axes, t.graph.type(id).rank(), t.mesh(), cat("a layout for ", t.graph.type(id)));
    if (parameter != nullptr) t.store(*parameter, layout);
    ValueId out = t.builder.one("layout", {id});
    t.graph.value(out).layout = std::move(layout);
    return t.tensor(out);
  });
}

}  // namespace karez
