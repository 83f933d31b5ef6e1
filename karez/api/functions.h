// Functions of tensors. Shapes are logical: no function knows of devices; how values lie on the mesh follows from rules
// and the planner.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/tensor.h"

namespace karez {

// Element by element. equal and not_equal are words, since == should compare handles nowhere.
Tensor exp(Term x);
Tensor log(Term x);
Tensor sqrt(Term x);
Tensor tanh(Term x);
Tensor sigmoid(Term x);
Tensor relu(Term x);
Tensor gelu(Term x);       // the erf form
Tensor gelu_tanh(Term x);  // by a tanh, as GPT-2's
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
Tensor select(Term condition, Term x, Term y);  // x where the bool holds, else y
Tensor where(Term condition, Term x, Term y);   // the same, as NumPy calls it
Tensor clip(Term x, std::optional<double> low,
            std::optional<double> high = {});  // between the bounds that are given; NaN stays
Tensor cast(Term x, DType to);
Tensor stop_gradient(Term x);  // x, through which no gradient passes

// Reductions over `axes` (which may count from the end); all of them if there is none. keep: the axes stay, with
// size 1.
Tensor sum(Term x, Ints axes = {}, bool keep = false);
Tensor mean(Term x, Ints axes = {}, bool keep = false);
Tensor max(Term x, Ints axes = {}, bool keep = false);
Tensor min(Term x, Ints axes = {}, bool keep = false);
Tensor arg_max(Term x, int axis = -1);                  // i64; the first maximum wins
Tensor arg_min(Term x, int axis = -1);                  // i64; the first minimum wins
Tensor any(Term x, Ints axes = {}, bool keep = false);  // of bools: whether one holds; of none, false
Tensor all(Term x, Ints axes = {}, bool keep = false);  // whether all hold; of none, true
// Squared distance from the mean, summed and divided by the count less `correction` (1: of a sample, PyTorch's default;
// 0: of everything), and its root.
Tensor var(Term x, Ints axes = {}, bool keep = false, std::int64_t correction = 1);
Tensor stddev(Term x, Ints axes = {}, bool keep = false, std::int64_t correction = 1);
// (sum |x|^p)^(1/p). p = 0 counts what is not 0; infinity is the largest |x|. At the origin its gradient is 0.
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
// Einstein's sum: einsum("bhtd,bhsd->bhts", {q, k}). What the result does not name is summed over; without "->" it has
// the letters that stand once, in alphabetical order. "..." are leading dimensions, equal in all operands that have
// them. No letter stands twice in an operand.
Tensor einsum(std::string_view subscripts, std::vector<Term> operands);
Tensor conv2d(Term x, Term weight, Conv2dOptions options = {});
Tensor conv2d(Term x, Term weight, Term bias, Conv2dOptions options = {});  // bias [o]
// As those of conv2d, along one dimension.
struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1;
};
Tensor conv1d(Term x, Term weight, Conv1dOptions options = {});             // [n, c, l], [o, c, k] -> [n, o, m]
Tensor conv1d(Term x, Term weight, Term bias, Conv1dOptions options = {});  // bias [o]
Tensor max_pool(Term x, std::int64_t kernel, std::int64_t stride = 0,
                std::int64_t padding = 0);  // stride 0: that of the kernel
Tensor avg_pool(Term x, std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0);

// Normalisation over the last dimensions, as many as the weight (and bias) has. layer_norm: (x - mean) / sqrt(var +
// eps) * weight + bias, with the variance of everything; rms_norm: x / sqrt(mean(x x) + eps) * weight, with the
// distance from 1 to the next number of x's dtype (f32 for halves) where no eps is given.
Tensor layer_norm(Term x, Term weight, Term bias, double eps = 1e-5);
Tensor rms_norm(Term x, Term weight, std::optional<double> eps = {});
// By channel, dimension 1 of x [n, c, ...]; weight and bias [c]. batch_norm: (x - mean) / sqrt(var + eps) * weight +
// bias with mean and variance over all else of the whole batch, however it lies on the mesh; nn::BatchNorm keeps
// running ones. group_norm: over each of so many groups of channels.
Tensor batch_norm(Term x, Term weight, Term bias, double eps = 1e-5);
// The same with running statistics: in training the batch's, and what runs follows by r = (1 - momentum) r + momentum
// now, of the variance the unbiased one; otherwise those that ran.
struct RunningStatistics {
  Parameter mean, variance;  // [c]
  double momentum = 0.1;
};
Tensor batch_norm(Term x, const RunningStatistics& running, bool training, Term weight, Term bias, double eps = 1e-5);
Tensor group_norm(Term x, std::int64_t groups, Term weight, Term bias, double eps = 1e-5);

// softmax(q k^T scale) v. q [n..., h, t, d], k [n..., g, s, d], v [n..., g, s, e] -> [n..., h, t, e]; g divides h: h /
// g heads of queries share one of keys and values. causal: query i sees keys 0 to i. With a mask: bool (true is seen)
// or numbers (added to the scaled products), broadcast to [n..., h, t, s]; a key to which -inf is added is not seen. A
// query that sees nothing gives 0, as do its gradients.
struct AttentionOptions {
  bool causal = false;
  std::optional<double> scale = {};  // 1 / sqrt(d)
};
Tensor scaled_dot_product_attention(Term q, Term k, Term v, AttentionOptions options = {});
Tensor scaled_dot_product_attention(Term q, Term k, Term v, Term mask, AttentionOptions options = {});
Tensor attention_weights(Term q, Term k, AttentionOptions options = {});  // the softmax alone: [n..., h, t, s]
Tensor attention_weights(Term q, Term k, Term mask, AttentionOptions options = {});
// Rotary positions: in x [..., t, d] each pair of elements of row p is turned by the angle (first + p) base^(-2 i / d).
// Pairs are i and i + d / 2, or neighbours where interleaved.
struct RotaryOptions {
  double base = 10000;
  std::int64_t first = 0;
  bool interleaved = false;
};
Tensor rotary(Term x, RotaryOptions options = {});

// Losses. cross_entropy: logits [n, c], labels i32 or i64 [n]; the mean over rows, or with weights [n] the weighted
// mean. A label outside 0 to c - 1 is an error of the launch that names its row (where devices hold different rows and
// several are wrong, one of them). Rows whose label is ignore_index, if one is given, are left out: the mean is over
// the others (NaN if there are none), and their logits get gradient 0.
struct CrossEntropyOptions {
  std::optional<std::int64_t> ignore_index = {};
};
Tensor cross_entropy(Term logits, Term labels, CrossEntropyOptions options = {});
Tensor cross_entropy(Term logits, Term labels, Term weights, CrossEntropyOptions options = {});
// How many rows have their (first) maximum at the label; with weights each row counts by its weight.
Tensor correct_count(Term logits, Term labels);
Tensor correct_count(Term logits, Term labels, Term weights);
// Zero with probability p, else x / (1 - p); x itself where the function is not compiled for training. Drawn from the
// world's seed, the module path, the step and the logical element: equal on every mesh.
Tensor dropout(Term x, double p);

// Shapes. reshape: one size may be -1. flatten: the dimensions from `first` on become one.
Tensor reshape(Term x, Shape shape);
Tensor flatten(Term x, int first = 1);
Tensor transpose(Term x, Ints permutation = {});  // none: the last two change places
Tensor broadcast_to(Term x, Shape shape);
Tensor slice(Term x, Ints begin, Ints size);
Tensor concat(std::vector<Term> xs, int axis = 0);
Tensor pad(Term x, Ints low, Ints high, double value = 0);
Tensor gather(
    Term table,
    Term index);  // rows of [v, d...] for an index of any shape; one outside 0 to v - 1 is an error of the launch
Tensor one_hot(Term index, std::int64_t depth, DType dtype = DType::f32);

// Along one axis, by default the last. cumsum: of each element the sum of those before it and itself. sort: values and
// their places before (i64); equal ones keep their order, NaN is the largest. topk: the first k of them, the largest
// first unless said. take_along: for each place of the index (of x's sizes but along the axis) the element of x that
// stands there along the axis where the index says; one outside is an error of the launch. add_along: zeros with `size`
// elements along the axis, each update added where the index (of one shape) says. Both are one another's gradients.
struct Sorted {
  Tensor values, indices;
};
Tensor cumsum(Term x, int axis = -1);
Sorted sort(Term x, int axis = -1, bool descending = false);
Tensor argsort(Term x, int axis = -1, bool descending = false);
Sorted topk(Term x, std::int64_t k, int axis = -1, bool largest = true);
Tensor take_along(Term x, Term index, int axis = -1);
Tensor add_along(Term index, Term updates, std::int64_t size, int axis = -1);

// Made from nothing.
Tensor full(Shape shape, double value, DType dtype = DType::f32, SourceLine where = SourceLine::current());
Tensor iota(Shape shape, int axis, DType dtype = DType::f32,
            SourceLine where = SourceLine::current());  // the index along the axis

Tensor constant(
    const HostArray& value,
    SourceLine where = SourceLine::current());  // these elements, as a part of the program: for small tables

// One node of any op by its name: a user's own (WorldOptions::ops), or one of ours that has no function here. Numbers
// among the inputs take the dtype that arithmetic would give; tensors stay as they are. apply: the op's only result;
// apply_all: every one. pointwise: an expression over x0, x1, ... (or x, y, z), of operands that broadcast and promote
// as those of arithmetic do.
Tensor pointwise(std::string_view expr, std::vector<Term> operands);
Tensor apply(std::string_view op, std::vector<Term> inputs, Attrs attrs = {}, SourceLine where = SourceLine::current());
std::vector<Tensor> apply_all(std::string_view op, std::vector<Term> inputs, Attrs attrs = {},
                              SourceLine where = SourceLine::current());

template <class Name>
concept AxisName = std::convertible_to<Name, std::string_view> || std::same_as<Name, std::nullptr_t>;

// The axes that split a value's dimensions: P("model", nullptr) for a matrix whose rows lie on the mesh axis "model";
// "data+model" for both.
template <AxisName First, AxisName... Names> std::vector<std::string> P(First first, Names... names) {
  auto text = [](auto name) {
    if constexpr (std::is_same_v<decltype(name), std::nullptr_t>) return std::string();
    else return std::string(std::string_view(name));
  };
  return {text(first), text(names)...};
}
// The value, laid on the mesh in this way; x itself, like all that nothing is said about, lies as the planner decides.
// A function that returns it leaves it so: an Array in this layout. Of a parameter it also says how it is stored: a
// rule, an earlier function or another hint that says otherwise is an error.
Tensor with_layout(Term x, std::vector<std::string> axes);

// From here on the program computes with `value`, of the parameter's type, where it reads the parameter; the call
// leaves it so.
void update(const Parameter& parameter, Term value);

// Whether this thread is writing a program: whether tensors exist.
bool tracing();
// The parameters that the value was computed from, as far as gradients pass, in the order in which the program met
// them.
std::vector<Parameter> parameters_of(Term value);

// Gradients of a scalar loss, one for each parameter or tensor and of its type: zeros where the loss does not depend on
// it. That of a parameter is taken at the version which the loss read (before or after an update); a loss that read two
// is an error. No gradient looks behind an optimiser's step: what it wrote is where the path begins.
std::vector<Tensor> grad(Term loss, const std::vector<Parameter>& parameters);
std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors);

}  // namespace karez
