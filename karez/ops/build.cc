// Implements the functions of build.h: each adds a node with the attributes of its op.
#include "karez/ops/build.h"

#include <cmath>

#include "karez/base/hex.h"
namespace karez::ops::build {
namespace {

Attrs type_attrs(const TensorType& type) {
  return {{"dtype", std::string(name_of(type.dtype))}, {"shape", type.shape}};  // has space for a third
}

Attrs conv_attrs(const ConvOptions& o) {
  Attrs attrs{{"stride", o.stride}, {"padding", o.padding}, {"dilation", o.dilation}};
  if (o.groups != 1) attrs.set("groups", o.groups);
  return attrs;
}
Attrs pool_attrs(const PoolOptions& o) { return {{"kernel", o.kernel}, {"stride", o.stride}, {"padding", o.padding}}; }

}  // namespace

ValueId input(Builder& b, std::string_view name, const TensorType& type) {
  return b.one("input", {}, type_attrs(type).set("name", Attr(std::string(name))));
}

ValueId prefetched_input(Builder& b, std::string_view name, const TensorType& type) {
  return b.one("input", {}, type_attrs(type).set("name", Attr(std::string(name))).set("ahead", true));
}

ValueId array_input(Builder& b, std::string_view name, const TensorType& type, Layout layout) {
  ValueId value = b.one("input", {}, type_attrs(type).set("name", Attr(std::string(name))).set("array", true));
  b.graph().value(value).layout = std::move(layout);
  return value;
}
ValueId variable(Builder& b, std::string_view name, const TensorType& type) {
  return b.one("variable", {}, type_attrs(type).set("name", Attr(std::string(name))));
}

ValueId constant(Builder& b, const TensorType& type, double value) {
  return b.one("constant", {}, type_attrs(type).set("value", value));
}

ValueId constant(Builder& b, const TensorType& type, std::span<const std::byte> row_major) {
  return b.one("constant", {}, type_attrs(type).set("data", base::hex_of(row_major)));
}

ValueId iota(Builder& b, const TensorType& type, int axis) {
  return b.one("iota", {}, type_attrs(type).set("axis", axis));
}

ValueId random_uniform(Builder& b, ValueId state, const TensorType& type, std::int64_t site) {
  return b.one("random_uniform", {state}, type_attrs(type).set("site", Attr(site)));
}

ValueId cast(Builder& b, ValueId x, DType to) {
  return b.type(x).dtype == to ? x : b.one("cast", {x}, {{"to", std::string(name_of(to))}});
}

ValueId pointwise(Builder& b, std::string_view expr, std::span<const ValueId> inputs) {
  return b.add("pointwise", inputs, {{"expr", std::string(expr)}})[0];
}

ValueId matmul(Builder& b, ValueId a, ValueId w, MatmulOptions options) {
  Attrs attrs;  // sets only attributes that are true, so that the text of a plain product is short
  if (options.transpose_a) attrs.set("transpose_a", Attr(true));
  if (options.transpose_b) attrs.set("transpose_b", Attr(true));
  return b.one("matmul", {a, w}, attrs);
}

ValueId conv2d(Builder& b, ValueId x, ValueId w, const ConvOptions& options) {
  return b.one("conv2d", {x, w}, conv_attrs(options));
}
ValueId conv2d_grad_input(Builder& b, ValueId dy, ValueId w, const ConvOptions& options, const Shape& shape) {
  return b.one("conv2d_grad_input", {dy, w}, conv_attrs(options).set("shape", shape));
}
ValueId conv2d_grad_weight(Builder& b, ValueId x, ValueId dy, const ConvOptions& options, const Ints& kernel) {
  return b.one("conv2d_grad_weight", {x, dy}, conv_attrs(options).set("kernel", kernel));
}

MaxPool max_pool(Builder& b, ValueId x, const PoolOptions& options) {
  auto out = b.add("max_pool", std::span(&x, 1), pool_attrs(options));
  return {out[0], out[1]};
}
ValueId max_pool_grad(Builder& b, ValueId dy, ValueId index, const PoolOptions& options, const Shape& shape) {
  return b.one("max_pool_grad", {dy, index}, pool_attrs(options).set("shape", shape));
}
ValueId avg_pool(Builder& b, ValueId x, const PoolOptions& options) {
  return b.one("avg_pool", {x}, pool_attrs(options));
}
ValueId avg_pool_grad(Builder& b, ValueId dy, const PoolOptions& options, const Shape& shape) {
  return b.one("avg_pool_grad", {dy}, pool_attrs(options).set("shape", shape));
}

ValueId reduce_sum(Builder& b, ValueId x, const Ints& axes) { return b.one("reduce_sum", {x}, {{"axes", axes}}); }
ValueId reduce_max(Builder& b, ValueId x, const Ints& axes) { return b.one("reduce_max", {x}, {{"axes", axes}}); }
ValueId reduce_min(Builder& b, ValueId x, const Ints& axes) { return b.one("reduce_min", {x}, {{"axes", axes}}); }

ValueId broadcast(Builder& b, ValueId x, const Shape& shape, const Ints& dims) {
  return b.one("broadcast", {x}, {{"shape", shape}, {"dims", dims}});
}
ValueId reshape(Builder& b, ValueId x, const Shape& shape) { return b.one("reshape", {x}, {{"shape", shape}}); }
ValueId transpose(Builder& b, ValueId x, const Ints& perm) { return b.one("transpose", {x}, {{"perm", perm}}); }
ValueId slice(Builder& b, ValueId x, const Ints& begin, const Ints& size) {
  return b.one("slice", {x}, {{"begin", begin}, {"size", size}});
}
ValueId concat(Builder& b, std::span<const ValueId> xs, int axis) {
  return b.add("concat", xs, {{"axis", std::int64_t{axis}}})[0];
}
ValueId pad(Builder& b, ValueId x, const Ints& low, const Ints& high, double value) {
  return b.one("pad", {x}, {{"low", low}, {"high", high}, {"value", value}});
}

ValueId gather(Builder& b, ValueId table, ValueId index) { return b.one("gather", {table, index}); }
ValueId scatter_add(Builder& b, ValueId index, ValueId updates, std::int64_t rows) {
  return b.one("scatter_add", {index, updates}, {{"rows", rows}});
}
ValueId one_hot(Builder& b, ValueId index, std::int64_t depth, DType dtype) {
  return b.one("one_hot", {index}, {{"depth", depth}, {"dtype", std::string(name_of(dtype))}});
}
ValueId arg_max(Builder& b, ValueId x, int axis) { return b.one("arg_max", {x}, {{"axis", std::int64_t{axis}}}); }

ValueId cumsum(Builder& b, ValueId x, int axis, bool reverse) {
  Attrs attrs{{"axis", std::int64_t{axis}}};
  if (reverse) attrs.set("reverse", true);
  return b.one("cumsum", {x}, std::move(attrs));
}
SortResult sort(Builder& b, ValueId x, int axis, bool descending, std::optional<std::int64_t> first) {
  Attrs attrs{{"axis", std::int64_t{axis}}};
  if (descending) attrs.set("descending", true);
  if (first) attrs.set("first", *first);
  auto out = b.add("sort", std::span(&x, 1), std::move(attrs));
  return {out[0], out[1]};
}
ValueId take_along(Builder& b, ValueId x, ValueId index, int axis) {
  return b.one("take_along", {x, index}, {{"axis", std::int64_t{axis}}});
}
ValueId add_along(Builder& b, ValueId index, ValueId updates, std::int64_t size, int axis) {
  return b.one("add_along", {index, updates}, {{"axis", std::int64_t{axis}}, {"size", size}});
}

namespace {
std::vector<ValueId> update(Builder& b, const char* op, std::vector<ValueId> in, ValueId apply, Attrs attrs) {
  if (!apply.valid()) return b.add(op, in, std::move(attrs));
  in.push_back(apply);
  return b.add(cat(op, "_if"), in, std::move(attrs));
}
}  // namespace

SgdResult sgd(Builder& b, ValueId w, ValueId m, ValueId g, ValueId lr, const SgdOptions& o, ValueId apply) {
  auto out = update(b, "sgd", {w, m, g, lr}, apply,
                    {{"momentum", o.momentum}, {"weight_decay", o.weight_decay}, {"nesterov", o.nesterov}});
  return {out[0], out[1]};
}

AdamResult adam(Builder& b, ValueId w, ValueId m, ValueId v, ValueId g, ValueId lr, ValueId step, const AdamOptions& o,
                ValueId apply) {
  auto out = update(b, "adam", {w, m, v, g, lr, step}, apply,
                    {{"beta1", o.beta1},
                     {"beta2", o.beta2},
                     {"eps", o.eps},
                     {"weight_decay", o.weight_decay},
                     {"decoupled", o.decoupled}});
  return {out[0], out[1], out[2]};
}

}  // namespace karez::ops::build
