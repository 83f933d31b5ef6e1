// The functions of tensors. Shapes are logical, and functions do not mention devices; rules and the planner determine
// the layout of each value on the mesh.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/op_call.h"
#include "karez/api/pointwise_functions.h"
#include "karez/api/tensor.h"

namespace karez {

// Elementwise functions; pointwise_functions.h has those that call one op. equal and not_equal are functions, so that
// == cannot be mistaken for a comparison of handles.
Tensor relu(Term x);
Tensor pow(Term x, Term y);
Tensor maximum(Term x, Term y);
Tensor minimum(Term x, Term y);
Tensor equal(Term x, Term y);
Tensor not_equal(Term x, Term y);
Tensor logical_and(Term x, Term y);
Tensor logical_or(Term x, Term y);
Tensor logical_not(Term x);
Tensor select(Term condition, Term x, Term y);  // x where the condition is true, otherwise y
Tensor where(Term condition, Term x, Term y);   // the same as select, under its NumPy name
// Limits x to the range from `low` to `high`, each of which may be left out; NaN stays NaN.
Tensor clip(Term x, std::optional<double> low, std::optional<double> high = {});
Tensor cast(Term x, DType to);

// Reductions over `axes` (negative axes count from the end), or over all axes if the list is empty. With `keep`,
// reduced axes stay in the shape with size 1.
Tensor sum(Term x, Ints axes = {}, bool keep = false);
Tensor mean(Term x, Ints axes = {}, bool keep = false);
Tensor max(Term x, Ints axes = {}, bool keep = false);
Tensor min(Term x, Ints axes = {}, bool keep = false);
Tensor arg_max(Term x, int axis = -1);                  // index (i64) of the first maximum
Tensor arg_min(Term x, int axis = -1);                  // index (i64) of the first minimum
Tensor any(Term x, Ints axes = {}, bool keep = false);  // logical or of bools; false if there are no elements
Tensor all(Term x, Ints axes = {}, bool keep = false);  // logical and of bools; true if there are no elements
// Variance: the sum of squared differences from the mean, divided by the number of elements minus `correction` (1, as
// in PyTorch, for a sample; 0 for a population). stddev is the square root of the variance.
Tensor var(Term x, Ints axes = {}, bool keep = false, std::int64_t correction = 1);
Tensor stddev(Term x, Ints axes = {}, bool keep = false, std::int64_t correction = 1);
// The p-norm (sum |x|^p)^(1/p). p = 0 counts the nonzero elements; p = infinity gives the largest |x|. The gradient at
// x = 0 is 0.
Tensor norm(Term x, double p = 2, Ints axes = {}, bool keep = false);
Tensor softmax(Term x, int axis = -1);
Tensor log_softmax(Term x, int axis = -1);

// Products. matmul multiplies [..., m, k] by [..., k, n] with equal leading dimensions. conv2d convolves [n, c, h, w]
// with a weight [o, c, r, s].
struct Conv2dOptions {
  Ints stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};  // height, width
};
Tensor matmul(Term a, Term b);
// x [..., in] times the transpose of weight [out, in], plus bias [out].
Tensor linear(Term x, Term weight);
Tensor linear(Term x, Term weight, Term bias);
// Einstein summation: einsum("bhtd,bhsd->bhts", {q, k}). Letters that are not in the result are summed over; without
// "->" the result has the letters that occur once, in alphabetical order. "..." stands for leading dimensions, which
// are equal in all operands that have them. An operand cannot contain a letter twice.
Tensor einsum(std::string_view subscripts, std::vector<Term> operands);
Tensor conv2d(Term x, Term weight, Conv2dOptions options = {});
Tensor conv2d(Term x, Term weight, Term bias, Conv2dOptions options = {});  // bias [o]
// Options of conv1d.
struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1;
};
Tensor conv1d(Term x, Term weight, Conv1dOptions options = {});             // [n, c, l], [o, c, k] -> [n, o, m]
Tensor conv1d(Term x, Term weight, Term bias, Conv1dOptions options = {});  // bias [o]
// Pooling over windows of kernel x kernel elements. Stride 0 means a stride equal to the size of the kernel.
Tensor max_pool(Term x, std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0);
Tensor avg_pool(Term x, std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0);

// Normalisation over the last dimensions of x; the shape of the weight (and bias) determines how many. layer_norm is (x
// - mean) / sqrt(var + eps) * weight + bias, with the population variance. rms_norm is x / sqrt(mean(x * x) + eps) *
// weight; its default eps is the machine epsilon of x's dtype (that of f32 for half types).
Tensor layer_norm(Term x, Term weight, Term bias, double eps = 1e-5);
Tensor rms_norm(Term x, Term weight, std::optional<double> eps = {});
// Normalisation of each channel, dimension 1 of x [n, c, ...]; weight and bias [c]. batch_norm is (x - mean) / sqrt(var
// + eps) * weight + bias, with mean and variance over all other dimensions of the complete batch, whatever its layout;
// nn::BatchNorm keeps running statistics. group_norm normalises each of `groups` groups of channels.
Tensor batch_norm(Term x, Term weight, Term bias, double eps = 1e-5);
// Running statistics r of batch_norm. Training uses the statistics s of the batch and updates r = (1 - momentum) * r +
// momentum * s, with the unbiased variance; inference uses r.
struct RunningStatistics {
  Parameter mean, variance;  // [c]
  double momentum = 0.1;
};
Tensor batch_norm(Term x, const RunningStatistics& running, bool training, Term weight, Term bias, double eps = 1e-5);
Tensor group_norm(Term x, std::int64_t groups, Term weight, Term bias, double eps = 1e-5);

// Computes matmul(softmax(matmul(q, transpose(k)) * scale), v) for q [n..., h, t, d], k [n..., g, s, d], v [n..., g, s,
// e] -> [n..., h, t, e]. g must divide h: each head of keys and values serves h / g query heads. If `causal`, query i
// attends to keys 0 to i. A mask is bool (true means attend) or numeric (added to the scaled products) and is broadcast
// to [n..., h, t, s]; a key with -inf in the mask is excluded. If all keys of a query are excluded, its result and
// gradient are 0.
struct AttentionOptions {
  bool causal = false;
  std::optional<double> scale = {};  // default: 1 / sqrt(d)
};
Tensor scaled_dot_product_attention(Term q, Term k, Term v, AttentionOptions options = {});
Tensor scaled_dot_product_attention(Term q, Term k, Term v, Term mask, AttentionOptions options = {});
Tensor attention_weights(Term q, Term k, AttentionOptions options = {});  // only the softmax: [n..., h, t, s]
Tensor attention_weights(Term q, Term k, Term mask, AttentionOptions options = {});
// Rotary position embedding: in x [..., t, d], pair i of the elements of row p is rotated by the angle (first + p) *
// base^(-2 * i / d). A pair consists of elements i and i + d / 2, or of two adjacent elements if `interleaved`.
struct RotaryOptions {
  double base = 10000;
  std::int64_t first = 0;
  bool interleaved = false;
};
Tensor rotary(Term x, RotaryOptions options = {});

// Losses. cross_entropy takes logits [n, c] and labels i32 or i64 [n], and returns the mean over rows, or with weights
// [n] the weighted mean. A label outside 0 to c - 1 makes the launch fail with an error that names the row of the
// label; if several devices find such a label, the error names one of the rows. Rows with the label ignore_index are
// skipped: the mean is over the other rows (NaN if there are none), and the logits of skipped rows get gradient 0.
struct CrossEntropyOptions {
  std::optional<std::int64_t> ignore_index = {};
};
Tensor cross_entropy(Term logits, Term labels, CrossEntropyOptions options = {});
Tensor cross_entropy(Term logits, Term labels, Term weights, CrossEntropyOptions options = {});
Tensor cross_entropy_of_rows(Term logits, Term labels);  // the loss of each row: [n]
// The number of rows whose (first) maximum is at the label; with weights, the sum of the weights of these rows.
Tensor correct_count(Term logits, Term labels);
Tensor correct_count(Term logits, Term labels, Term weights);
// Sets each element to zero with probability p and divides the others by 1 - p; returns x if the function is not
// compiled for training. The random numbers depend on the world's seed, the module path, the step and the logical
// element, so the result is the same on every mesh.
Tensor dropout(Term x, double p);

// Shapes. In reshape one size may be -1. flatten merges dimension `first` and all later ones.
Tensor reshape(Term x, Shape shape);
Tensor flatten(Term x, int first = 1);
Tensor transpose(Term x, Ints permutation = {});  // default: exchanges the last two dimensions
Tensor broadcast_to(Term x, Shape shape);
Tensor slice(Term x, Ints begin, Ints size);
Tensor concat(std::vector<Term> xs, int axis = 0);
// Adds, in each dimension d, low[d] elements before x and high[d] elements after it, all equal to `value`.
Tensor pad(Term x, Ints low, Ints high, double value = 0);
// Rows of a table [v, d...], selected by an index tensor of any shape; an index outside 0 to v - 1 makes the launch
// fail.
Tensor gather(Term table, Term index);
Tensor one_hot(Term index, std::int64_t depth, DType dtype = DType::f32);

// Functions along one axis, by default the last.
//   cumsum      for each element, the sum of all elements up to and including it
//   sort        the sorted values and their original indices (i64); equal elements keep their order, NaN is the largest
//   topk        the first k elements in sorted order, by default the largest first
//   take_along  for each element of index (whose sizes are those of x except along the axis), the element of x there
//   add_along   a tensor of zeros with `size` elements along the axis, with each update added at its index
// An index out of range makes the launch fail. take_along and add_along are each other's gradients.
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
// A tensor in which each element is its own index along the axis.
Tensor iota(Shape shape, int axis, DType dtype = DType::f32, SourceLine where = SourceLine::current());

// A tensor whose elements are stored in the program, for small tables.
Tensor constant(const HostArray& value, SourceLine where = SourceLine::current());

// Functions for ops without a function in this header. apply adds one node of the op with this name, user-defined
// (WorldOptions::ops) or built in, and returns its only result; apply_all returns all results. Numbers among the inputs
// take the dtype that arithmetic would give them; tensors keep their dtype. pointwise computes an expression in which
// x0, x1, ... (or x, y, z) are the operands; operands broadcast and promote as in arithmetic.
Tensor pointwise(std::string_view expr, std::vector<Term> operands);
Tensor apply(std::string_view op, std::vector<Term> inputs, Attrs attrs = {}, SourceLine where = SourceLine::current());
std::vector<Tensor> apply_all(std::string_view op, std::vector<Term> inputs, Attrs attrs = {},
                              SourceLine where = SourceLine::current());

template <class Name>
concept AxisName = std::convertible_to<Name, std::string_view> || std::same_as<Name, std::nullptr_t>;

// Returns a partition spec: for each dimension of a value, the mesh axes that split it. Use P("model", nullptr) for a
// matrix whose rows are split along the mesh axis "model"; "data+model" names two axes.
template <AxisName First, AxisName... Names> std::vector<std::string> P(First first, Names... names) {
  auto text = [](auto name) {
    if constexpr (std::is_same_v<decltype(name), std::nullptr_t>) return std::string();
    else return std::string(std::string_view(name));
  };
  return {text(first), text(names)...};
}
// Returns x in this layout. The planner still chooses the layout of x itself, as for all values without a prescribed
// layout. If a function returns the result, the Array has this layout. For a parameter, with_layout also fixes the
// stored layout; it is an error if a rule, an earlier function or another hint requires a different layout.
Tensor with_layout(Term x, std::vector<std::string> axes);

// Makes later reads of the parameter in the program return `value`, which must have the parameter's type. A call of the
// compiled function stores the value in the parameter.
void update(const Parameter& parameter, Term value);

// Returns whether this thread is tracing a program.
bool tracing();
// Returns whether the tensor was made in the body that this thread is tracing: that of the function, or that of the
// innermost loop.
bool is_of_current_body(const Tensor& tensor);
// Returns the parameters on which the value depends through ops that pass gradients on, in the order of their first use
// in the program.
std::vector<Parameter> parameters_of(Term value);

// Returns the gradients of a scalar loss with respect to the parameters or tensors. Each gradient has the type of its
// parameter or tensor, and is zero if the loss does not depend on it. The gradient of a parameter is taken at the
// version that the loss read (before or after an update); a loss that read two versions is an error. Gradients do not
// pass through an optimiser's step: values that the step wrote are treated as inputs.
std::vector<Tensor> grad(Term loss, const std::vector<Parameter>& parameters);
std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors);

// Refers to a registered TensorHook.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::weak_ptr<TensorHook> hook) : hook_(std::move(hook)) {}
  void remove() const;  // the function is not called again; does nothing if the tensor no longer exists

 private:
  std::weak_ptr<TensorHook> hook_;
};
// Calls the function whenever grad or backward computes the gradient of the tensor, after all contributions to it have
// been added up. In a program that is being traced, the function is called during the trace, and the gradient is
// computed even if it is needed only by the function. Otherwise the tensor must require a gradient. Throws for a tensor
// that is not a float tensor, and in the body of a loop.
HookHandle register_hook(const Tensor& tensor, TensorHook hook, SourceLine where = SourceLine::current());

// Computes forward(inputs), whose gradients are those that `backward` returns: one for each input, of its type, or an
// uninitialised tensor for zeros. `backward` gets the results of `forward`, and the gradients of these; it is called if
// the loss depends on the results. No gradient flows through `forward` itself. The inputs that have gradients must be
// float tensors, as must the results.
using CustomForward = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
std::vector<Tensor> custom_function(const std::vector<Term>& inputs, const CustomForward& forward,
                                    CustomBackward backward, SourceLine where = SourceLine::current());

// Returns copies of values.
std::vector<Tensor> adjacent_copies(const std::vector<Term>& values);
// Returns copies of the outputs of the part, for the rest of the program. If a loss depends on them, and these depend
// on a value with a gradient, grad and backward call replace_outputs once, and then replace_inputs.
std::vector<Tensor> hooked_copies(const std::vector<Term>& outputs, ModuleHook hook);

}  // namespace karez
