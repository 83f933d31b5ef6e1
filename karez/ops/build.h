// Typed wrappers: one free function per op, each adds one node. No implicit broadcasting or promotion here; see
// compose.h for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// Sources.
ValueId input(Builder& b, std::string_view name, const TensorType& type);
ValueId prefetched_input(Builder& b, std::string_view name,
                         const TensorType& type);  // fed by a slow source and read one launch ahead
ValueId array_input(Builder& b, std::string_view name, const TensorType& type,
                    Layout layout);  // already on the mesh, in this layout
ValueId variable(Builder& b, std::string_view name, const TensorType& type);
ValueId constant(Builder& b, const TensorType& type,
                 double value);  // every element is `value`, which must be whole for integers
ValueId constant(Builder& b, const TensorType& type,
                 std::span<const std::byte> row_major);      // little-endian bytes, row-major
ValueId iota(Builder& b, const TensorType& type, int axis);  // the logical index along `axis`
// Uniform in [0, 1) from state i64[2] = (seed, step) and the site; the same number for the same logical element on any
// mesh.
ValueId random_uniform(Builder& b, ValueId state, const TensorType& type, std::int64_t site);

// Pointwise: operands of equal shape and dtype.
ValueId neg(Builder& b, ValueId x);
ValueId exp(Builder& b, ValueId x);
ValueId log(Builder& b, ValueId x);
ValueId sqrt(Builder& b, ValueId x);
ValueId rsqrt(Builder& b, ValueId x);
ValueId tanh(Builder& b, ValueId x);
ValueId sigmoid(Builder& b, ValueId x);
ValueId relu(Builder& b, ValueId x);
ValueId gelu(Builder& b, ValueId x);  // x times the normal distribution function of x (the erf form)
ValueId gelu_tanh(Builder& b, ValueId x);
ValueId silu(Builder& b, ValueId x);
ValueId erf(Builder& b, ValueId x);
ValueId abs(Builder& b, ValueId x);
ValueId sin(Builder& b, ValueId x);
ValueId cos(Builder& b, ValueId x);
ValueId stop_gradient(Builder& b, ValueId x);  // x itself, without a gradient
ValueId add(Builder& b, ValueId x, ValueId y);
ValueId sub(Builder& b, ValueId x, ValueId y);
ValueId mul(Builder& b, ValueId x, ValueId y);
ValueId div(Builder& b, ValueId x, ValueId y);
ValueId pow(Builder& b, ValueId x, ValueId y);
ValueId max(Builder& b, ValueId x, ValueId y);
ValueId min(Builder& b, ValueId x, ValueId y);
ValueId eq(Builder& b, ValueId x, ValueId y);  // comparisons give bool
ValueId ne(Builder& b, ValueId x, ValueId y);
ValueId lt(Builder& b, ValueId x, ValueId y);
ValueId le(Builder& b, ValueId x, ValueId y);
ValueId gt(Builder& b, ValueId x, ValueId y);
ValueId ge(Builder& b, ValueId x, ValueId y);
ValueId and_(Builder& b, ValueId x, ValueId y);  // of bools; ops "and", "or", "not"
ValueId or_(Builder& b, ValueId x, ValueId y);
ValueId not_(Builder& b, ValueId x);
ValueId select(Builder& b, ValueId condition, ValueId x, ValueId y);  // x if the bool is true, otherwise y
ValueId cast(Builder& b, ValueId x, DType to);                        // to the same dtype: x itself, no node
// Any expression over x0, x1, ... (in the grammar of karez/base/expr.h), for functions without an op of their own.
ValueId pointwise(Builder& b, std::string_view expr, std::span<const ValueId> inputs);

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;  // of the last two dimensions
};
ValueId matmul(Builder& b, ValueId a, ValueId w, MatmulOptions options = {});  // leading dimensions are a batch

struct ConvOptions {
  Ints stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};  // height, width
  std::int64_t groups = 1;  // of channels, each convolved with its own part of the weight
};
ValueId conv2d(Builder& b, ValueId x, ValueId w, const ConvOptions& options = {});  // [n,c,h,w], [o,c/groups,r,s]
ValueId conv2d_grad_input(Builder& b, ValueId dy, ValueId w, const ConvOptions& options,
                          const Shape& shape);  // shape of x
ValueId conv2d_grad_weight(Builder& b, ValueId x, ValueId dy, const ConvOptions& options,
                           const Ints& kernel);  // [r, s]

struct PoolOptions {
  Ints kernel = {2, 2}, stride = {2, 2}, padding = {0, 0};  // height, width
};
struct MaxPool {
  ValueId value, index;  // index i32: position of the first maximum in its window, r * width + s
};
MaxPool max_pool(Builder& b, ValueId x, const PoolOptions& options = {});
ValueId max_pool_grad(Builder& b, ValueId dy, ValueId index, const PoolOptions& options, const Shape& shape);
ValueId avg_pool(Builder& b, ValueId x, const PoolOptions& options = {});  // padding counts as zeros
ValueId avg_pool_grad(Builder& b, ValueId dy, const PoolOptions& options, const Shape& shape);

ValueId reduce_sum(Builder& b, ValueId x, const Ints& axes);  // removes the axes
ValueId reduce_max(Builder& b, ValueId x, const Ints& axes);
ValueId reduce_min(Builder& b, ValueId x, const Ints& axes);

ValueId broadcast(Builder& b, ValueId x, const Shape& shape,
                  const Ints& dims);  // x's dimension i is dimension dims[i] of the result
ValueId reshape(Builder& b, ValueId x, const Shape& shape);
ValueId transpose(Builder& b, ValueId x, const Ints& perm);  // dimension i of the result is x's perm[i]
ValueId slice(Builder& b, ValueId x, const Ints& begin, const Ints& size);
ValueId concat(Builder& b, std::span<const ValueId> xs, int axis);
ValueId pad(Builder& b, ValueId x, const Ints& low, const Ints& high, double value = 0);

ValueId gather(Builder& b, ValueId table, ValueId index);                            // rows of [v, d...]
ValueId scatter_add(Builder& b, ValueId index, ValueId updates, std::int64_t rows);  // [rows, d...]
ValueId one_hot(Builder& b, ValueId index, std::int64_t depth, DType dtype = DType::f32);
ValueId arg_max(Builder& b, ValueId x, int axis);  // i64; the first maximum wins

ValueId cumsum(Builder& b, ValueId x, int axis,
               bool reverse = false);  // inclusive; reverse: from the last element to the first
struct SortResult {
  ValueId values, indices;  // indices i64
};
// Stable; NaN is the largest. first: the number of elements kept.
SortResult sort(Builder& b, ValueId x, int axis, bool descending = false, std::optional<std::int64_t> first = {});
ValueId take_along(Builder& b, ValueId x, ValueId index, int axis);  // elements of x at the indices along the axis
ValueId add_along(Builder& b, ValueId index, ValueId updates, std::int64_t size, int axis);  // take_along's gradient

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
struct SgdResult {
  ValueId w, m;
};
// lr: a scalar of w's dtype. apply: an optional scalar bool; false leaves w and m unchanged.
SgdResult sgd(Builder& b, ValueId w, ValueId m, ValueId g, ValueId lr, const SgdOptions& options = {},
              ValueId apply = {});

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // weight decay separate from the gradient: AdamW
};
struct AdamResult {
  ValueId w, m, v;
};
// step: i64 scalar, 1 at the first update. apply: as above.
AdamResult adam(Builder& b, ValueId w, ValueId m, ValueId v, ValueId g, ValueId lr, ValueId step,
                const AdamOptions& options = {}, ValueId apply = {});

}  // namespace karez::ops::build
