// Functions of tensors. Shapes are logical: functions do not mention devices; the layout of each value on the mesh
// follows from rules and the planner.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/tensor.h"

namespace karez {

// Elementwise functions. equal and not_equal are functions, since == should never compare handles.
Tensor exp(Term x);
Tensor log(Term x);
Tensor sqrt(Term x);
Tensor tanh(Term x);
Tensor sigmoid(Term x);
Tensor relu(Term x);
Tensor gelu(Term x);       // the erf form
Tensor gelu_tanh(Term x);  // the tanh approximation, as in GPT-2
Tensor silu(Term x);       // x sigmoid(x), also called swish
Tensor abs(Term x);
Tensor sin(Term x);
Tensor cos(Term x);
Tensor pow(Term x, Term y);
Tensor maximum(Term x, Term y);
Tensor minimum(Term x, Term y);
Tensor equal(Term x, Term y);
Tensor not_equal(Term x, Term y);
Tensor logical_and(Term x, Term y);
Tensor logical_or(Term x, Term y);
Tensor logical_not(Term x);
Tensor select(Term condition, Term x, Term y);  // x where the condition is true, otherwise y
Tensor where(Term condition, Term x, Term y);   // the same under NumPy's name
// Limits x to the given bounds; NaN stays.
Tensor clip(Term x, std::optional<double> low, std::optional<double> high = {});
Tensor cast(Term x, DType to);
Tensor stop_gradient(Term x);  // x, but no gradient passes through it

// Reductions over `axes` (negative axes count from the end), or over all axes if none is given. keep: reduced axes
// stay, with size 1.
Tensor sum(Term x, Ints axes = {}, bool keep = false);
Tensor mean(Term x, Ints axes = {}, bool keep = false);
Tensor max(Term x, Ints axes = {}, bool keep = false);
Tensor min(Term x, Ints axes = {}, bool keep = false);
Tensor arg_max(Term x, int axis = -1);                  // i64; the first maximum wins
Tensor arg_min(Term x, int axis = -1);                  // i64; the first minimum wins
Tensor any(Term x, Ints axes = {}, bool keep = false);  // of bools: whether any is true; false for no elements
Tensor all(Term x, Ints axes = {}, bool keep = false);  // of bools: whether all are true; true for no elements
// Variance: the squared distances from the mean, summed and divided by the count less `correction` (1, PyTorch's
// default: of a sample; 0: of the whole population); stddev is its square root.
Tensor var(Term x, Ints axes = {}, bool keep = false, std::int64_t correction = 1);
Tensor stddev(Term x, Ints axes = {}, bool keep = false, std::int64_t correction = 1);
// (sum |x|^p)^(1/p). p = 0 counts the nonzero elements; p = infinity is the largest |x|. At the origin its gradient is
// 0.
Tensor norm(Term x, double p = 2, Ints axes = {}, bool keep = false);
Tensor softmax(Term x, int axis = -1);
Tensor log_softmax(Term x, int axis = -1);

// Products. matmul: [..., m, k] and [..., k, n], leading dimensions equal. conv2d: [n, c, h, w] and [o, c, r, s].
struct Conv2dOptions {
  Ints stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};  // height, width
};
Tensor matmul(Term a, Term b);
// x [..., in] times the transpose of weight [out, in], plus bias [out].
Tensor linear(Term x, Term weight);
Tensor linear(Term x, Term weight, Term bias);
// Einstein summation: einsum("bhtd,bhsd->bhts", {q, k}). Letters that the result lacks are summed over; without "->"
// the result has the letters that occur once, in alphabetical order. "..." are leading dimensions, equal in all
// operands that have them. No letter occurs twice in an operand.
Tensor einsum(std::string_view subscripts, std::vector<Term> operands);
Tensor conv2d(Term x, Term weight, Conv2dOptions options = {});
Tensor conv2d(Term x, Term weight, Term bias, Conv2dOptions options = {});  // bias [o]
// As Conv2dOptions, along one dimension.
struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1;
};
Tensor conv1d(Term x, Term weight, Conv1dOptions options = {});             // [n, c, l], [o, c, k] -> [n, o, m]
Tensor conv1d(Term x, Term weight, Term bias, Conv1dOptions options = {});  // bias [o]
// stride 0: the size of the kernel.
Tensor max_pool(Term x, std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0);
Tensor avg_pool(Term x, std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0);

// Normalisation over the last dimensions; their number is the rank of the weight (and bias). layer_norm: (x - mean) /
// sqrt(var + eps) * weight + bias, with the population variance; rms_norm: x / sqrt(mean(x x) + eps) * weight; its
// default eps is the distance from 1 to the next number of x's dtype (f32 for half types).
Tensor layer_norm(Term x, Term weight, Term bias, double eps = 1e-5);
Tensor rms_norm(Term x, Term weight, std::optional<double> eps = {});
// By channel, dimension 1 of x [n, c, ...]; weight and bias [c]. batch_norm: (x - mean) / sqrt(var + eps) * weight +
// bias, with mean and variance over all other dimensions of the whole batch, independent of its layout; nn::BatchNorm
// keeps running statistics. group_norm: over each of the given number of groups of channels.
Tensor batch_norm(Term x, Term weight, Term bias, double eps = 1e-5);
// The same with running statistics r: in training it uses the batch's statistics s and updates r = (1 - momentum) r +
// momentum s, with the unbiased variance; otherwise it uses r.
struct RunningStatistics {
  Parameter mean, variance;  // [c]
  double momentum = 0.1;
};
Tensor batch_norm(Term x, const RunningStatistics& running, bool training, Term weight, Term bias, double eps = 1e-5);
Tensor group_norm(Term x, std::int64_t groups, Term weight, Term bias, double eps = 1e-5);

// softmax(q k^T scale) v. q [n..., h, t, d], k [n..., g, s, d], v [n..., g, s, e] -> [n..., h, t, e]; g divides h: h /
// g heads of queries share one of keys and values. causal: query i attends to keys 0 to i. A mask is bool (true:
// attend) or numeric (added to the scaled products), broadcast to [n..., h, t, s]; a key with -inf in the mask is
// excluded. A query with no keys gives 0, with gradient 0.
struct AttentionOptions {
  bool causal = false;
  std::optional<double> scale = {};  // 1 / sqrt(d)
};
Tensor scaled_dot_product_attention(Term q, Term k, Term v, AttentionOptions options = {});
Tensor scaled_dot_product_attention(Term q, Term k, Term v, Term mask, AttentionOptions options = {});
Tensor attention_weights(Term q, Term k, AttentionOptions options = {});  // only the softmax: [n..., h, t, s]
Tensor attention_weights(Term q, Term k, Term mask, AttentionOptions options = {});
// Rotary positions: in x [..., t, d] each pair of elements of row p is rotated by the angle (first + p) base^(-2 i /
// d). Pairs are i and i + d / 2, or adjacent elements if interleaved.
struct RotaryOptions {
  double base = 10000;
  std::int64_t first = 0;
  bool interleaved = false;
};
Tensor rotary(Term x, RotaryOptions options = {});

// Losses. cross_entropy: logits [n, c], labels i32 or i64 [n]; the mean over rows, or with weights [n] the weighted
// mean. A label outside 0 to c - 1 makes the launch fail with an error that names its row (one such row, if several
// devices find one). Rows with the label ignore_index, if given, are skipped: the mean is over the other rows (NaN if
// there are none), and their logits get gradient 0.
struct CrossEntropyOptions {
  std::optional<std::int64_t> ignore_index = {};
};
Tensor cross_entropy(Term logits, Term labels, CrossEntropyOptions options = {});
Tensor cross_entropy(Term logits, Term labels, Term weights, CrossEntropyOptions options = {});
// The number of rows with their (first) maximum at the label; with weights the sum of those rows' weights.
Tensor correct_count(Term logits, Term labels);
Tensor correct_count(Term logits, Term labels, Term weights);
// Zero with probability p, otherwise x / (1 - p); x itself if the function is not compiled for training. The random
// numbers depend on the world's seed, the module path, the step and the logical element, so they are equal on every
// mesh.
Tensor dropout(Term x, double p);

// Shapes. reshape: one size may be -1. flatten: merges the dimensions from `first` on into one.
Tensor reshape(Term x, Shape shape);
Tensor flatten(Term x, int first = 1);
Tensor transpose(Term x, Ints permutation = {});  // default: exchange the last two
Tensor broadcast_to(Term x, Shape shape);
Tensor slice(Term x, Ints begin, Ints size);
Tensor concat(std::vector<Term> xs, int axis = 0);
Tensor pad(Term x, Ints low, Ints high, double value = 0);
// Rows of a table [v, d...] for an index of any shape; an index outside 0 to v - 1 makes the launch fail.
Tensor gather(Term table, Term index);
Tensor one_hot(Term index, std::int64_t depth, DType dtype = DType::f32);

// Functions along one axis, by default the last. cumsum: the sum of all elements up to and including each one. sort:
// values and their original indices (i64); equal elements keep their order, and NaN is the largest. topk: the first k
// elements, largest first by default. take_along: for each element of index (with x's sizes except along the axis), the
// element of x at that position along the axis; an index out of range makes the launch fail. add_along: zeros of
// `size` elements along the axis, with each update added at its index (of the same shape). take_along and add_along are
// each other's gradients.
struct Sorted {
  Tensor values, indices;
};
Tensor cumsum(Term x, int axis = -1);
Sorted sort(Term x, int axis = -1, bool descending = false);
Tensor argsort(Term x, int axis = -1, bool descending = false);
Sorted topk(Term x, std::int64_t k, int axis = -1, bool largest = true);
Tensor take_along(Term x, Term index, int axis = -1);
Tensor add_along(Term index, Term updates, std::int64_t size, int axis = -1);

// Tensors without operands.
Tensor full(Shape shape, double value, DType dtype = DType::f32, SourceLine where = SourceLine::current());
// The index along the axis.
Tensor iota(Shape shape, int axis, DType dtype = DType::f32, SourceLine where = SourceLine::current());

// These elements, stored in the program: for small tables.
Tensor constant(const HostArray& value, SourceLine where = SourceLine::current());

// One node of any op by its name: a user's op (WorldOptions::ops), or a built-in one without a function here. Numbers
// among the inputs take the dtype that arithmetic would give; tensors keep theirs. apply: the op's only result;
// apply_all: all results. pointwise: an expression over x0, x1, ... (or x, y, z), of operands that broadcast and
// promote as those of arithmetic do.
Tensor pointwise(std::string_view expr, std::vector<Term> operands);
Tensor apply(std::string_view op, std::vector<Term> inputs, Attrs attrs = {}, SourceLine where = SourceLine::current());
std::vector<Tensor> apply_all(std::string_view op, std::vector<Term> inputs, Attrs attrs = {},
                              SourceLine where = SourceLine::current());

template <class Name>
concept AxisName = std::convertible_to<Name, std::string_view> || std::same_as<Name, std::nullptr_t>;

// The mesh axes that split each dimension of a value: P("model", nullptr) for a matrix with rows split along the mesh
// axis "model"; "data+model" for both axes.
template <AxisName First, AxisName... Names> std::vector<std::string> P(First first, Names... names) {
  auto text = [](auto name) {
    if constexpr (std::is_same_v<decltype(name), std::nullptr_t>) return std::string();
    else return std::string(std::string_view(name));
  };
  return {text(first), text(names)...};
}
// The value in this layout; x itself, like all values without a prescribed layout, has the layout that the planner
// chooses. If a function returns the value, the result is an Array in this layout. Applied to a parameter, it also
// fixes the parameter's stored layout: a rule, an earlier function or another hint with a different layout is an error.
Tensor with_layout(Term x, std::vector<std::string> axes);

// From here on, reads of the parameter in the program return `value`, which has the parameter's type; the call stores
// it in the parameter.
void update(const Parameter& parameter, Term value);

// Whether this thread is tracing a program.
bool tracing();
// The parameters on which the value depends through gradients, in the order in which the program first used them.
std::vector<Parameter> parameters_of(Term value);

// Gradients of a scalar loss, one for each parameter or tensor and of its type: zeros if the loss does not depend on
// it. The gradient of a parameter is taken at the version that the loss read (before or after an update); a loss that
// read two versions is an error. Gradients do not pass through an optimiser's step: values that it wrote count as
// inputs.
std::vector<Tensor> grad(Term loss, const std::vector<Parameter>& parameters);
std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors);

}  // namespace karez
