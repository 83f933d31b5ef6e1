// Functions of tensors: promotion and source lines here, all other work in the ops' builders and compositions.
#include "karez/api/functions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "karez/api/namespace.h"
#include "karez/api/trace/axes.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/attention.h"
#include "karez/ops/compose.h"
#include "karez/ops/gradient.h"
#include "karez/ops/integers.h"
#include "karez/ops/losses.h"
#include "karez/ops/norms.h"
#include "karez/sbp/partition_spec.h"

namespace karez {
namespace {

// bool < integers < floats
int kind_of(DType dtype) { return dtype == DType::b8 ? 0 : is_float(dtype) ? 2 : 1; }

DType wider(DType a, DType b) {
  if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
  if (is_half(a) && is_half(b) && a != b) return DType::f32;  // neither represents all values of the other
  return size_of(a) >= size_of(b) ? a : b;
}

// PyTorch's result type: tensors with dimensions decide before scalar tensors, and these before numbers; later groups
// only count if their kind is higher.
DType promoted(const Trace& trace, std::span<const Term* const> terms) {
  std::optional<DType> ranks[3];
  for (const Term* term : terms) {
    const bool number = term->is_number() || term->stands_for_number();
    bool scalar = !number && (term->value.index() == 0 ? std::get<Tensor>(term->value).rank()
                                                       : std::get<Parameter>(term->value).shape().size()) == 0;
    auto& slot = ranks[number ? 2 : scalar ? 1 : 0];
    DType dtype = trace.dtype_of(*term);
    slot = slot ? wider(*slot, dtype) : dtype;
  }
  std::optional<DType> out;
  for (const auto& rank : ranks)
    if (rank && (!out || kind_of(*rank) > kind_of(*out))) out = rank;
  return *out;
}
DType promoted(const Trace& trace, std::initializer_list<const Term*> terms) {
  return promoted(trace, std::span(terms.begin(), terms.size()));
}

ValueId as(Trace& trace, const Term& term, DType dtype) {
  return build::cast(trace.builder, trace.value(term, dtype), dtype);
}

Tensor unary(const Term& x, std::string_view op) {
  return at_line(x.where, [&](Trace& t) { return t.tensor(t.builder.one(op, {t.value(x, t.dtype_of(x))})); });
}

// Unary functions with fractional results: integers become f32.
Tensor smooth(const Term& x, std::string_view op) {
  return at_line(x.where, [&](Trace& t) {
    DType dtype = t.dtype_of(x);
    return t.tensor(t.builder.one(op, {as(t, x, is_float(dtype) ? dtype : DType::f32)}));
  });
}

// Only numbers, at least one of which is an input: computed as on the host, in f64 or i64.
bool are_numbers(const Term& a, const Term& b) {
  return (a.stands_for_number() && (b.stands_for_number() || b.is_number())) ||
         (b.stands_for_number() && a.is_number());
}

Tensor binary(const Term& a, const Term& b, std::string_view op) {
  return at_line(a.where, [&](Trace& t) {
    DType dtype = promoted(t, {&a, &b});
    if (op == "div" && !is_float(dtype)) dtype = DType::f32;
    if (is_float(dtype) && are_numbers(a, b)) dtype = DType::f64;
    // In separate statements: the order of evaluation must be the same on every rank.
    ValueId left = as(t, a, dtype), right = as(t, b, dtype);
    return t.tensor(dtype == DType::b8 ? build::binary_of_bools(t.builder, op, left, right)
                                       : build::binary(t.builder, op, left, right));
  });
}

Tensor on_bools(const Term& a, const Term& b, std::string_view op) {
  return at_line(a.where, [&](Trace& t) {
    ValueId left = t.value(a, DType::b8), right = t.value(b, DType::b8);
    return t.tensor(build::binary(t.builder, op, left, right));
  });
}

build::PoolOptions pool_options(std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  if (stride == 0) stride = kernel;
  return {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}};
}

// Applies a composition to logits, labels and optional weights, which take the logits' dtype.
template <class Op> Tensor of_rows(const Term& logits, const Term& labels, const Term* weights, Op op) {
  return at_line(logits.where, [&](Trace& t) {
    ValueId x = t.value(logits), y = t.value(labels, DType::i64);
    std::optional<ValueId> w;
    if (weights != nullptr) w = as(t, *weights, t.dtype_of(logits));
    return t.tensor(op(t.builder, x, y, w));
  });
}
Tensor mean_of_losses(const Term& logits, const Term& labels, const Term* weights, const CrossEntropyOptions& options) {
  return of_rows(logits, labels, weights, [&](Builder& b, ValueId x, ValueId y, std::optional<ValueId> w) {
    return build::cross_entropy(b, x, y, w, options.ignore_index);
  });
}

Tensor attention(const Term& q, const Term& k, const Term& v, const Term* mask, const AttentionOptions& options) {
  return at_line(q.where, [&](Trace& t) {
    ValueId a = t.value(q), b = t.value(k), c = t.value(v);
    std::optional<ValueId> m;
    if (mask != nullptr) m = t.value(*mask, t.dtype_of(*mask));
    return t.tensor(build::attention(t.builder, a, b, c, {options.causal, options.scale}, m));
  });
}
Tensor weights_of(const Term& q, const Term& k, const Term* mask, const AttentionOptions& options) {
  return at_line(q.where, [&](Trace& t) {
    ValueId a = t.value(q), b = t.value(k);
    std::optional<ValueId> m;
    if (mask != nullptr) m = t.value(*mask, t.dtype_of(*mask));
    return t.tensor(build::attention_weights(t.builder, a, b, {options.causal, options.scale}, m));
  });
}

}  // namespace

Tensor operator+(Term a, Term b) { return binary(a, b, "add"); }
Tensor operator-(Term a, Term b) { return binary(a, b, "sub"); }
Tensor operator*(Term a, Term b) { return binary(a, b, "mul"); }
Tensor operator/(Term a, Term b) { return binary(a, b, "div"); }
Tensor operator-(Term x) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x, t.dtype_of(x));
    require(ErrorKind::type, t.graph.type(id).dtype != DType::b8, "neg: takes numbers, not ", t.graph.type(id),
            "; use logical_not for bools");
    return t.tensor(build::neg(t.builder, id));
  });
}
Tensor operator<(Term a, Term b) { return binary(a, b, "lt"); }
Tensor operator<=(Term a, Term b) { return binary(a, b, "le"); }
Tensor operator>(Term a, Term b) { return binary(a, b, "gt"); }
Tensor operator>=(Term a, Term b) { return binary(a, b, "ge"); }

Tensor exp(Term x) { return smooth(x, "exp"); }
Tensor log(Term x) { return smooth(x, "log"); }
Tensor sqrt(Term x) { return smooth(x, "sqrt"); }
Tensor tanh(Term x) { return smooth(x, "tanh"); }
Tensor sigmoid(Term x) { return smooth(x, "sigmoid"); }
Tensor relu(Term x) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x, t.dtype_of(x));
    const DType dtype = t.graph.type(id).dtype;
    if (is_float(dtype)) return t.tensor(build::relu(t.builder, id));
    require(ErrorKind::type, dtype != DType::b8, "relu: takes numbers, not ", t.graph.type(id), "; cast it first");
    return t.tensor(build::binary(t.builder, "max", id, build::full_like(t.builder, id, 0)));
  });
}
Tensor gelu(Term x) { return smooth(x, "gelu"); }
Tensor gelu_tanh(Term x) { return smooth(x, "gelu_tanh"); }
Tensor silu(Term x) { return smooth(x, "silu"); }
Tensor abs(Term x) { return unary(x, "abs"); }
Tensor sin(Term x) { return smooth(x, "sin"); }
Tensor cos(Term x) { return smooth(x, "cos"); }
Tensor pow(Term x, Term y) {
  return at_line(x.where, [&](Trace& t) {
    DType dtype = promoted(t, {&x, &y});
    if (is_float(dtype) && are_numbers(x, y)) dtype = DType::f64;
    const ValueId base = as(t, x, dtype), power = as(t, y, dtype);
    if (is_float(dtype)) return t.tensor(build::binary(t.builder, "pow", base, power));
    require(ErrorKind::type, dtype != DType::b8, "pow: takes numbers, not ", t.graph.type(base), " and ",
            t.graph.type(power), "; cast them first");
    const std::int64_t* number = std::get_if<std::int64_t>(&y.value);
    require(number == nullptr || *number >= 0, "pow: ", t.graph.type(base), " to the power ",
            number == nullptr ? 0 : *number, " is not an integer: cast it to a float first");
    return t.tensor(build::pow_of_integers(t.builder, base, power));
  });
}
Tensor maximum(Term x, Term y) { return binary(x, y, "max"); }
Tensor minimum(Term x, Term y) { return binary(x, y, "min"); }
Tensor equal(Term x, Term y) { return binary(x, y, "eq"); }
Tensor not_equal(Term x, Term y) { return binary(x, y, "ne"); }
Tensor logical_and(Term x, Term y) { return on_bools(x, y, "and"); }
Tensor logical_or(Term x, Term y) { return on_bools(x, y, "or"); }
Tensor logical_not(Term x) { return unary(x, "not"); }
Tensor stop_gradient(Term x) { return unary(x, "stop_gradient"); }

Tensor select(Term condition, Term x, Term y) {
  return at_line(condition.where, [&](Trace& t) {
    DType dtype = promoted(t, {&x, &y});
    ValueId c = t.value(condition, DType::b8), a = as(t, x, dtype), b = as(t, y, dtype);
    Shape shape = build::broadcast_shape(t.graph.type(c).shape,
                                         build::broadcast_shape(t.graph.type(a).shape, t.graph.type(b).shape));
    for (ValueId* value : {&c, &a, &b}) *value = build::broadcast_to(t.builder, *value, shape);
    return t.tensor(build::select(t.builder, c, a, b));
  });
}

Tensor clip(Term x, std::optional<double> low, std::optional<double> high) {
  return at_line(x.where, [&](Trace& t) { return t.tensor(build::clip(t.builder, t.value(x), low, high)); });
}

Tensor cast(Term x, DType to) {
  return at_line(x.where, [&](Trace& t) { return t.tensor(as(t, x, to)); });
}

Tensor softmax(Term x, int axis) {
  return at_line(x.where, [&](Trace& t) { return t.tensor(build::softmax(t.builder, t.value(x), axis)); });
}
Tensor log_softmax(Term x, int axis) {
  return at_line(x.where, [&](Trace& t) { return t.tensor(build::log_softmax(t.builder, t.value(x), axis)); });
}

Tensor matmul(Term a, Term b) {
  return at_line(a.where, [&](Trace& t) {
    ValueId left = t.value(a), right = t.value(b);
    return t.tensor(build::matmul(t.builder, left, right));
  });
}

Tensor linear(Term x, Term weight) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x), w = t.value(weight);
    return t.tensor(build::linear(t.builder, id, w));
  });
}
Tensor linear(Term x, Term weight, Term bias) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x), w = t.value(weight), shift = t.value(bias);
    return t.tensor(build::linear(t.builder, id, w, shift));
  });
}

Tensor einsum(std::string_view subscripts, std::vector<Term> operands) {
  require(!operands.empty(), "einsum '", subscripts, "': at least one operand is required");
  return at_line(operands[0].where, [&](Trace& t) {
    std::vector<ValueId> ids;
    for (const Term& operand : operands) ids.push_back(t.value(operand));
    return t.tensor(build::einsum(t.builder, subscripts, ids));
  });
}

Tensor conv2d(Term x, Term weight, Conv2dOptions options) {
  return at_line(x.where, [&](Trace& t) {
    ValueId image = t.value(x), kernel = t.value(weight);
    return t.tensor(build::conv2d(t.builder, image, kernel, {options.stride, options.padding, options.dilation}));
  });
}

Tensor conv2d(Term x, Term weight, Term bias, Conv2dOptions options) {
  return at_line(x.where, [&](Trace& t) {
    ValueId image = t.value(x), kernel = t.value(weight), shift = t.value(bias);
    return t.tensor(
        build::conv2d_bias(t.builder, image, kernel, shift, {options.stride, options.padding, options.dilation}));
  });
}

Tensor max_pool(Term x, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return at_line(x.where, [&](Trace& t) {
    return t.tensor(build::max_pool(t.builder, t.value(x), pool_options(kernel, stride, padding)).value);
  });
}
Tensor avg_pool(Term x, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return at_line(x.where, [&](Trace& t) {
    return t.tensor(build::avg_pool(t.builder, t.value(x), pool_options(kernel, stride, padding)));
  });
}

Tensor layer_norm(Term x, Term weight, Term bias, double eps) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x), w = t.value(weight), shift = t.value(bias);
    return t.tensor(build::layer_norm(t.builder, id, t.graph.type(w).rank(), eps, w, shift));
  });
}
namespace {
// The distance from 1 to the next number of the dtype of the computation: f32 for half types.
double epsilon(DType dtype) { return std::ldexp(1.0, dtype == DType::f64 ? -52 : -23); }
}  // namespace

Tensor rms_norm(Term x, Term weight, std::optional<double> eps) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x), w = t.value(weight);
    return t.tensor(
        build::rms_norm(t.builder, id, t.graph.type(w).rank(), eps.value_or(epsilon(t.graph.type(id).dtype)), w));
  });
}

Tensor scaled_dot_product_attention(Term q, Term k, Term v, AttentionOptions options) {
  return attention(q, k, v, nullptr, options);
}
Tensor scaled_dot_product_attention(Term q, Term k, Term v, Term mask, AttentionOptions options) {
  return attention(q, k, v, &mask, options);
}
Tensor attention_weights(Term q, Term k, AttentionOptions options) { return weights_of(q, k, nullptr, options); }
Tensor attention_weights(Term q, Term k, Term mask, AttentionOptions options) {
  return weights_of(q, k, &mask, options);
}
Tensor rotary(Term x, RotaryOptions options) {
  return at_line(x.where, [&](Trace& t) {
    return t.tensor(build::rotary(t.builder, t.value(x), {options.base, options.first, options.interleaved}));
  });
}

Tensor cross_entropy(Term logits, Term labels, CrossEntropyOptions options) {
  return mean_of_losses(logits, labels, nullptr, options);
}
Tensor cross_entropy(Term logits, Term labels, Term weights, CrossEntropyOptions options) {
  return mean_of_losses(logits, labels, &weights, options);
}
Tensor correct_count(Term logits, Term labels) { return of_rows(logits, labels, nullptr, build::correct_count); }
Tensor correct_count(Term logits, Term labels, Term weights) {
  return of_rows(logits, labels, &weights, build::correct_count);
}

Tensor dropout(Term x, double p) {
  return at_line(x.where, [&](Trace& t) {
    require(p >= 0 && p < 1, "dropout: a probability of ", p, " is not in [0, 1)");
    ValueId id = t.value(x);
    if (!t.training() || p == 0) return t.tensor(id);
    ValueId state = t.random_state();
    return t.tensor(build::dropout(t.builder, id, p, state, t.site()));
  });
}

Tensor reshape(Term x, Shape shape) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x);
    std::int64_t known = 1, count = t.graph.type(id).count();
    for (auto size : shape)
      if (size != -1) known = checked_mul(known, size);
    auto open = std::find(shape.begin(), shape.end(), -1);
    if (open != shape.end()) {
      require(ErrorKind::shape, std::count(shape.begin(), shape.end(), -1) == 1, "reshape to ", shape,
              ": only one size may be -1");
      require(ErrorKind::shape, known > 0 && count % known == 0, "reshape: ", t.graph.type(id), " has ", count,
              " elements, which ", shape, " does not divide");
      *open = count / known;
    }
    return t.tensor(build::reshape(t.builder, id, shape));
  });
}

Tensor flatten(Term x, int first) {
  return at_line(x.where, [&](Trace& t) {
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
  return at_line(x.where, [&](Trace& t) {
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
  return at_line(x.where,
                 [&](Trace& t) { return t.tensor(build::broadcast_to(t.builder, t.value(x, t.dtype_of(x)), shape)); });
}
Tensor slice(Term x, Ints begin, Ints size) {
  return at_line(x.where, [&](Trace& t) { return t.tensor(build::slice(t.builder, t.value(x), begin, size)); });
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
  return at_line(x.where, [&](Trace& t) { return t.tensor(build::pad(t.builder, t.value(x), low, high, value)); });
}
Tensor gather(Term table, Term index) {
  return at_line(table.where, [&](Trace& t) {
    ValueId rows = t.value(table), which = t.value(index, DType::i64);
    const DType dtype = t.graph.type(rows).dtype;
    return t.tensor(build::cast(t.builder, build::gather(t.builder, build::as_numbers(t.builder, rows), which), dtype));
  });
}
Tensor one_hot(Term index, std::int64_t depth, DType dtype) {
  return at_line(index.where, [&](Trace& t) {
    return t.tensor(build::one_hot(t.builder, t.value(index, DType::i64), depth, dtype));
  });
}

Tensor full(Shape shape, double value, DType dtype, SourceLine where) {
  return at_line(where, [&](Trace& t) {
    if (t.expression == nullptr) return t.tensor(build::full(t.builder, dtype, shape, value));
    // An input, so that another value has the same program.
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
    require(out.size() == 1, "apply: op '", op, "' has ", out.size(), " results; apply_all returns them");
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
    // A parameter uses the mesh that stores it; any other value uses the mesh of the scope or the rules, or without
    // these its own.
    const int mesh = parameter == nullptr && t.builder.mesh != 0 ? t.builder.mesh : t.resolve_mesh(id);
    ScopedValue placed(t.builder.mesh, mesh);
    Layout layout = layout_from(axes, t.graph.type(id).rank(), t.mesh(), cat("a layout for ", t.graph.type(id)));
    if (parameter != nullptr) t.store(*parameter, layout);
    ValueId out = t.builder.one("layout", {id});
    t.graph.value(out).layout = std::move(layout);
    return t.tensor(out);
  });
}

namespace {

// An expression contains only the nodes of this call.
void check_loss(const Trace& t, const Term& loss) {
  require(t.expression == nullptr || t.contains(loss),
          "grad outside of a compiled function: the computation of the loss is not available; ",
          "value_and_grad(f)(x) computes f(x) and its gradients");
}

// `reached`: whether the loss depends on each of them; empty: it depends on all.
std::vector<Tensor> gradients(Trace& t, ValueId loss, std::span<const ValueId> wrt,
                              const std::vector<bool>& reached = {}) {
  std::vector<Tensor> out;
  const ValueId scale =
      t.scales_losses() ? build::cast(t.builder, t.loss_scale(), t.graph.type(loss).dtype) : ValueId();
  for (ValueId id : gradient(t.builder, loss, wrt, t.gradient_stops(), scale)) {
    const bool none = !reached.empty() && !reached[out.size()];
    out.push_back(t.tensor(scale.valid() && !none ? t.unscale(id) : id));
    if (none) t.mark_no_gradient(out.back());
  }
  return out;
}

}  // namespace

std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors) {
  return at_line(loss.where, [&](Trace& t) {
    check_loss(t, loss);
    std::vector<ValueId> wrt;
    for (const auto& tensor : tensors) wrt.push_back(t.value(Term(tensor)));
    return gradients(t, t.value(loss), wrt);
  });
}

std::vector<Tensor> grad(Term loss, const std::vector<Parameter>& parameters) {
  return at_line(loss.where, [&](Trace& t) {
    check_loss(t, loss);
    const ValueId from = t.value(loss);
    const std::vector<ValueId> versions = t.versions_read(from, parameters);
    const std::vector<Parameter> behind = t.ancestor_parameters(from);
    std::vector<bool> reached;
    for (const Parameter& parameter : parameters)
      reached.push_back(std::find(behind.begin(), behind.end(), parameter) != behind.end());
    return gradients(t, from, versions, reached);
  });
}

}  // namespace karez
