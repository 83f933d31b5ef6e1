// Typed functions that add a node of one op, for gradients, compositions and the functions of the API. They neither
// broadcast nor promote operands; karez/ops/compose.h has functions that broadcast.
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
#include "karez/ops/pointwise_build.h"

namespace karez::ops::build {

// Sources.
ValueId input(Builder& b, std::string_view name, const TensorType& type);
ValueId prefetched_input(
    Builder& b, std::string_view name,
    const TensorType& type);  // fed by a slow source; each batch is read during the preceding launch
ValueId array_input(Builder& b, std::string_view name, const TensorType& type,
                    Layout layout);  // a value that is on the mesh already, in this layout
ValueId variable(Builder& b, std::string_view name, const TensorType& type);
ValueId constant(Builder& b, const TensorType& type,
                 double value);  // all elements are `value`, which must be an integer for integer types
ValueId constant(Builder& b, const TensorType& type,
                 std::span<const std::byte> row_major);      // little-endian bytes, row-major
ValueId iota(Builder& b, const TensorType& type, int axis);  // the logical index along `axis`
// Returns uniform random numbers in [0, 1). They depend on state i64[2] = (seed, step), the site and the logical index
// of the element, but not on the mesh.
ValueId random_uniform(Builder& b, ValueId state, const TensorType& type, std::int64_t site);

// pointwise_build.h has the functions for the rows of karez/ops/pointwise.cc.
ValueId cast(Builder& b, ValueId x, DType to);  // returns x and adds no node if the dtype is the same
// Evaluates an expression over x0, x1, ... (see karez/base/expr.h), for functions that have no op.
ValueId pointwise(Builder& b, std::string_view expr, std::span<const ValueId> inputs);

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;  // exchange the last two dimensions
};
ValueId matmul(Builder& b, ValueId a, ValueId w,
               MatmulOptions options = {});  // leading dimensions are batch dimensions

struct ConvOptions {
  Ints stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};  // height, width
  std::int64_t groups = 1;  // groups of channels, each convolved with a separate part of the weight
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
  ValueId value, index;  // index is i32: the position of the first maximum in its window, r * width + s
};
MaxPool max_pool(Builder& b, ValueId x, const PoolOptions& options = {});
ValueId max_pool_grad(Builder& b, ValueId dy, ValueId index, const PoolOptions& options, const Shape& shape);
ValueId avg_pool(Builder& b, ValueId x, const PoolOptions& options = {});  // padding counts as zeros
ValueId avg_pool_grad(Builder& b, ValueId dy, const PoolOptions& options, const Shape& shape);

ValueId reduce_sum(Builder& b, ValueId x, const Ints& axes);  // removes the axes
ValueId reduce_max(Builder& b, ValueId x, const Ints& axes);
ValueId reduce_min(Builder& b, ValueId x, const Ints& axes);

ValueId broadcast(Builder& b, ValueId x, const Shape& shape,
                  const Ints& dims);  // dimension i of x is dimension dims[i] of the result
ValueId reshape(Builder& b, ValueId x, const Shape& shape);
ValueId transpose(Builder& b, ValueId x, const Ints& perm);  // dimension i of the result is dimension perm[i] of x
ValueId slice(Builder& b, ValueId x, const Ints& begin, const Ints& size);
ValueId concat(Builder& b, std::span<const ValueId> xs, int axis);
ValueId pad(Builder& b, ValueId x, const Ints& low, const Ints& high, double value = 0);

ValueId gather(Builder& b, ValueId table, ValueId index);                            // rows of [v, d...]
ValueId scatter_add(Builder& b, ValueId index, ValueId updates, std::int64_t rows);  // [rows, d...]
ValueId one_hot(Builder& b, ValueId index, std::int64_t depth, DType dtype = DType::f32);
ValueId arg_max(Builder& b, ValueId x, int axis);  // i64; the index of the first maximum

ValueId cumsum(Builder& b, ValueId x, int axis,
               bool reverse = false);  // inclusive; if reverse, from the last element to the first
struct SortResult {
  ValueId values, indices;  // indices are i64
};
// The sort is stable, and NaN is greater than every number. If `first` is given, returns only the first `first`
// elements.
SortResult sort(Builder& b, ValueId x, int axis, bool descending = false, std::optional<std::int64_t> first = {});
ValueId take_along(Builder& b, ValueId x, ValueId index, int axis);  // elements of x at the indices along the axis
ValueId add_along(Builder& b, ValueId index, ValueId updates, std::int64_t size,
                  int axis);  // the gradient of take_along

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
struct SgdResult {
  ValueId w, m;
};
// `lr` is a scalar of w's dtype; `apply` is an optional scalar bool, and false leaves w and m unchanged.
SgdResult sgd(Builder& b, ValueId w, ValueId m, ValueId g, ValueId lr, const SgdOptions& options = {},
              ValueId apply = {});

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // weight decay is separate from the gradient (AdamW)
};
struct AdamResult {
  ValueId w, m, v;
};
// `step` is an i64 scalar, 1 at the first update; `lr` and `apply` are as in sgd().
AdamResult adam(Builder& b, ValueId w, ValueId m, ValueId v, ValueId g, ValueId lr, ValueId step,
                const AdamOptions& options = {}, ValueId apply = {});

}  // namespace karez::ops::build
