// Composes broadcasting, means, softmax, losses, dropout and dense layers from primitive ops.
#include "karez/ops/compose.h"

#include <algorithm>

// At most one argument of a call adds nodes, because C++ does not define the order in which arguments are evaluated,
// and all ranks must number nodes in the same way.
namespace karez::ops::build {
namespace {

// Returns the axes as sorted non-negative numbers. An axis that does not exist or occurs twice is an error.
Ints normalise_axes(std::string_view what, const TensorType& x, const Ints& axes) {
  Ints out = axes;
  for (auto& axis : out) {
    require(ErrorKind::type, axis >= -x.rank() && axis < x.rank(), what, ": axis ", axis, " is not a dimension of ", x);
    if (axis < 0) axis += x.rank();
  }
  std::sort(out.begin(), out.end());
  const auto twice = std::adjacent_find(out.begin(), out.end());
  if (twice != out.end()) fail(ErrorKind::shape, what, ": axis ", *twice, " occurs twice in ", axes);
  return out;
}

Ints all_axes(const TensorType& x) {
  Ints axes;
  for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
  return axes;
}

// Broadcasts y, from which `axes` were reduced, back to `shape`.
ValueId broadcast_back(Builder& b, ValueId y, const Shape& shape, const Ints& axes) {
  Ints kept_dims;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) kept_dims.push_back(d);
  return broadcast(b, y, shape, kept_dims);
}

// Subtracts the maximum along the axis. The maximum needs no gradient, because a shift of x does not change its
// softmax.
ValueId subtract_max(Builder& b, ValueId x, const Ints& axis) {
  Shape shape = b.type(x).shape;
  return sub(b, x, broadcast_back(b, stop_gradient(b, reduce_max(b, x, axis)), shape, axis));
}

void check_rows(std::string_view what, Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights) {
  const TensorType &x = b.type(logits), &t = b.type(labels);
  require(ErrorKind::type, x.rank() == 2 && is_float(x.dtype), what, ": logits must be f32 or f64 [n, c], got ", x);
  bool is_valid = t.shape == Shape{x.shape[0]} && (t.dtype == DType::i32 || t.dtype == DType::i64);
  require(ErrorKind::type, is_valid, what, ": labels must be i32 or i64 [", x.shape[0], "] for logits ", x, ", got ",
          t);
  if (!weights) return;
  require(ErrorKind::type, (b.type(*weights) == TensorType{x.dtype, {x.shape[0]}}), what, ": weights must be ",
          name_of(x.dtype), "[", x.shape[0], "] for logits ", x, ", got ", b.type(*weights));
}

// The losses of rows of f32 or f64.
ValueId losses_of_rows(Builder& b, ValueId logits, ValueId labels) {
  const TensorType x = b.type(logits);
  // The logit of the label is selected before the logarithm of the sum is subtracted, so that only vectors [n] are sent
  // between devices if classes are split: -log_softmax[label] = log(sum(exp(s))) - s[label].
  ValueId s = subtract_max(b, logits, {1});
  ValueId normaliser = log(b, reduce_sum(b, exp(b, s), {1}));
  // The logit is selected, not multiplied: a class masked by a logit of -inf would give 0 * inf.
  ValueId label =
      b.one("one_hot", {labels},
            {{"depth", x.shape[1]}, {"dtype", std::string("bool")}, {"of", std::string("cross_entropy's label")}});
  ValueId label_logit = reduce_sum(b, select(b, label, s, full(b, x.dtype, x.shape, 0)), {1});
  return sub(b, normaliser, label_logit);
}

}  // namespace

ValueId scalar(Builder& b, DType dtype, double value) { return constant(b, {dtype, {}}, value); }

ValueId full(Builder& b, DType dtype, const Shape& shape, double value) {
  ValueId number = scalar(b, dtype, value);
  return shape.empty() ? number : broadcast(b, number, shape, {});
}

ValueId full_like(Builder& b, ValueId x, double value) {
  TensorType type = b.type(x);
  return full(b, type.dtype, type.shape, value);
}

TensorType widened(TensorType type) { return {is_half(type.dtype) ? DType::f32 : type.dtype, std::move(type.shape)}; }
ValueId widened(Builder& b, ValueId x) { return is_half(b.type(x).dtype) ? cast(b, x, DType::f32) : x; }

Shape broadcast_shape(const Shape& x, const Shape& y) {
  Shape out(std::max(x.size(), y.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {  // counted from the last dimension
    auto size = [i](const Shape& s) { return i < s.size() ? s[s.size() - 1 - i] : 1; };
    auto a = size(x), c = size(y);
    require(ErrorKind::shape, a == c || a == 1 || c == 1, "shapes do not broadcast: ", x, " and ", y);
    out[out.size() - 1 - i] = a == 1 ? c : a;
  }
  return out;
}

ValueId broadcast_to(Builder& b, ValueId x, const Shape& shape) {
  Shape from = b.type(x).shape;
  if (from == shape) return x;
  require(ErrorKind::shape, broadcast_shape(from, shape) == shape, "shape ", from, " does not broadcast to ", shape);
  // Dimensions of size 1 that are enlarged are removed first: broadcast keeps the sizes of its operand.
  Shape kept_dims;
  Ints dims;
  std::size_t new_dims = shape.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != shape[new_dims + i]) continue;
    kept_dims.push_back(from[i]);
    dims.push_back(static_cast<std::int64_t>(new_dims + i));
  }
  if (kept_dims != from) x = reshape(b, x, kept_dims);
  return broadcast(b, x, shape, dims);
}

ValueId binary(Builder& b, std::string_view op, ValueId x, ValueId y) {
  Shape shape;
  try {
    shape = broadcast_shape(b.type(x).shape, b.type(y).shape);
  } catch (const Error& error) {
    fail(error.kind, op, ": ", error.what(), b.where.empty() ? "" : cat("\n  at ", b.where));
  }
  x = broadcast_to(b, x, shape);
  y = broadcast_to(b, y, shape);
  return b.one(op, {x, y});
}

ValueId pow_of_floats(Builder& b, ValueId x, double exponent) {
  struct Row {
    double exponent;
    std::string expr, slope;  // and its derivative
  };
  // Intermediate results overflow only where the power does. A root is the power 0.5 except for -0 and -inf.
  static const std::string root = "select(x0 == 0, 0, select(x0 == -inf, inf, sqrt(x0)))";
  static const Row rows[] = {
      {-2, "1 / x0 * (1 / x0)", "-2 * (1 / x0) * (1 / x0) * (1 / x0)"},
      {-1, "1 / x0", "-1 * (1 / x0) * (1 / x0)"},
      {0.5, root, "0.5 / " + root},
      {2, "x0 * x0", "2 * x0"},
      {3, "x0 * x0 * x0", "3 * (x0 * x0)"},
      {4, "x0 * x0 * (x0 * x0)", "4 * (x0 * x0 * x0)"},
  };
  for (const Row& row : rows)
    if (row.exponent == exponent) return b.one("pointwise", {x}, {{"expr", row.expr}, {"slopes", row.slope}});
  return binary(b, "pow", x, full_like(b, x, exponent));
}

ValueId sum(Builder& b, ValueId x) { return reduce_sum(b, x, all_axes(b.type(x))); }

ValueId sum(Builder& b, ValueId x, const Ints& axes, bool keep) {
  TensorType type = b.type(x);
  Ints reduced = normalise_axes("sum", type, axes);
  ValueId y = reduce_sum(b, x, reduced);
  if (!keep) return y;
  for (auto axis : reduced) type.shape[static_cast<std::size_t>(axis)] = 1;
  return reshape(b, y, type.shape);
}

ValueId mean(Builder& b, ValueId x) { return mean(b, x, all_axes(b.type(x))); }

ValueId mean(Builder& b, ValueId x, const Ints& axes, bool keep) {
  TensorType type = b.type(x);
  require(ErrorKind::type, is_float(type.dtype), "mean: expected f32 or f64, got ", type, "; cast it first");
  std::int64_t count = 1;
  for (auto axis : normalise_axes("mean", type, axes))
    count = checked_mul(count, type.shape[static_cast<std::size_t>(axis)]);
  require(ErrorKind::shape, count > 0, "mean: there are no elements along axes ", axes, " of ", type);
  ValueId total = sum(b, widened(b, x), axes, keep);
  return cast(b, mul(b, total, full_like(b, total, 1.0 / static_cast<double>(count))), type.dtype);
}

ValueId softmax(Builder& b, ValueId x, int axis) {
  const TensorType type = b.type(x);
  Ints axes = normalise_axes("softmax", type, {axis});
  ValueId e = exp(b, subtract_max(b, widened(b, x), axes));
  return cast(b, div(b, e, broadcast_back(b, reduce_sum(b, e, axes), type.shape, axes)), type.dtype);
}

ValueId log_softmax(Builder& b, ValueId x, int axis) {
  const TensorType type = b.type(x);
  Ints axes = normalise_axes("log_softmax", type, {axis});
  ValueId s = subtract_max(b, widened(b, x), axes);
  return cast(b, sub(b, s, broadcast_back(b, log(b, reduce_sum(b, exp(b, s), axes)), type.shape, axes)), type.dtype);
}

ValueId cross_entropy_of_rows(Builder& b, ValueId logits, ValueId labels) {
  check_rows("cross_entropy", b, logits, labels, {});
  return cast(b, losses_of_rows(b, widened(b, logits), labels), b.type(logits).dtype);
}

ValueId cross_entropy(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights,
                      std::optional<std::int64_t> ignore_index) {
  check_rows("cross_entropy", b, logits, labels, weights);
  const DType dtype = b.type(logits).dtype;
  logits = widened(b, logits);
  if (weights) weights = widened(b, *weights);
  const TensorType x = b.type(logits), t = b.type(labels);
  ValueId zero, is_counted;  // with ignore_index: zeros, and whether each row is counted
  if (ignore_index) {
    ValueId ignored_label =
        b.one("constant", {}, {{"dtype", std::string(name_of(t.dtype))}, {"shape", Ints{}}, {"value", *ignore_index}});
    is_counted = ne(b, labels, broadcast(b, ignored_label, t.shape, {}));
    labels = select(b, is_counted, labels, full(b, t.dtype, t.shape, 0));
    zero = full(b, x.dtype, t.shape, 0);
    weights = weights ? select(b, is_counted, *weights, zero) : cast(b, is_counted, x.dtype);
  }
  ValueId loss = losses_of_rows(b, logits, labels);
  if (!weights) return cast(b, mean(b, loss), dtype);
  if (ignore_index) loss = select(b, is_counted, loss, zero);
  ValueId total = sum(b, mul(b, loss, *weights));
  return cast(b, div(b, total, sum(b, *weights)), dtype);
}

ValueId correct_count(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights) {
  check_rows("correct_count", b, logits, labels, weights);
  DType dtype = b.type(logits).dtype;
  ValueId prediction = arg_max(b, logits, 1);
  ValueId is_correct = cast(b, eq(b, prediction, cast(b, labels, DType::i64)), is_half(dtype) ? DType::f32 : dtype);
  return cast(b, sum(b, weights ? mul(b, is_correct, widened(b, *weights)) : is_correct), dtype);
}

ValueId dropout(Builder& b, ValueId x, double p, ValueId state, std::int64_t site) {
  const DType dtype = b.type(x).dtype;
  require(is_float(dtype), "dropout: expected f32 or f64, got ", b.type(x));
  require(p >= 0 && p <= 1, "dropout: the probability must be from 0 to 1, got ", p);
  if (p == 0) return x;
  x = widened(b, x);
  const TensorType type = b.type(x);
  ValueId zero = full(b, type.dtype, type.shape, 0);
  if (p == 1) return cast(b, zero, dtype);
  ValueId uniform = random_uniform(b, state, type, site);
  ValueId drop = lt(b, uniform, full(b, type.dtype, type.shape, p));
  return cast(b, select(b, drop, zero, mul(b, x, full(b, type.dtype, type.shape, 1 / (1 - p)))), dtype);
}

ValueId linear(Builder& b, ValueId x, ValueId w, std::optional<ValueId> bias) {
  TensorType in = b.type(x), weight = b.type(w);
  require(ErrorKind::shape, weight.rank() == 2, "linear: the weight must be [out, in], got ", weight);
  require(ErrorKind::shape, in.rank() >= 1 && in.shape.back() == weight.shape[1],
          "linear: inner sizes differ: ", in.shape.empty() ? 0 : in.shape.back(), " and ", weight.shape[1], " (x ", in,
          ", weight ", weight, ")");
  // Leading dimensions become the rows of one matrix.
  Shape out = in.shape;
  out.back() = weight.shape[0];
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < in.shape.size(); ++d) rows = checked_mul(rows, in.shape[d]);
  bool is_matrix = in.rank() == 2;
  ValueId y = matmul(b, is_matrix ? x : reshape(b, x, {rows, weight.shape[1]}), w, {.transpose_b = true});
  if (bias) y = add(b, y, broadcast(b, *bias, {rows, weight.shape[0]}, {1}));
  return is_matrix ? y : reshape(b, y, out);
}

ValueId conv2d_bias(Builder& b, ValueId x, ValueId w, ValueId bias, const ConvOptions& options) {
  ValueId y = conv2d(b, x, w, options);
  Shape shape = b.type(y).shape;
  return add(b, y, broadcast(b, bias, shape, {1}));
}

}  // namespace karez::ops::build
