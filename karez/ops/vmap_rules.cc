// The table of rules of vmap. Most ops get one more letter at the front of all operands and results, so that only
// attributes that count or list dimensions change. Ops that have no such dimension to spare merge the batch with one of
// theirs.
#include "karez/ops/vmap_rules.h"

#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "karez/ops/build.h"

namespace karez::ops {
namespace {

using Values = std::vector<ValueId>;

std::size_t to_size(std::int64_t n) { return static_cast<std::size_t>(n); }

Ints with_first(Ints values, std::int64_t first) {
  values.insert(values.begin(), first);
  return values;
}

Ints plus_one(Ints values) {
  for (auto& value : values) ++value;
  return values;
}

// The attributes of a node whose operands and results have one more dimension at the front.
Attrs shifted(const Attrs& attrs, std::int64_t size) {
  Attrs out = attrs;
  for (const auto& [name, value] : attrs.items()) {
    const auto* list = std::get_if<Ints>(&value);
    if (name == "axis") out.set(name, std::get<std::int64_t>(value) + 1);
    else if (name == "axes") out.set(name, plus_one(*list));
    else if (name == "dims" || name == "perm") out.set(name, with_first(plus_one(*list), 0));
    else if (name == "shape" || (name == "size" && list != nullptr)) out.set(name, with_first(*list, size));
    else if (name == "begin" || name == "low" || name == "high") out.set(name, with_first(*list, 0));
  }
  return out;
}

ValueId operand(Builder& b, const MappedNode& n, std::size_t i) {
  return mapped(b, n.in[i], n.view.in_type(i), n.size);
}

Values with_new_letter(Builder& b, const MappedNode& n) {
  Values inputs;
  for (std::size_t i = 0; i < n.in.size(); ++i) inputs.push_back(operand(b, n, i));
  return b.add(n.view.node().op->name, inputs, shifted(n.view.attrs(), n.size));
}

// The layout that the user requests for an element splits the same dimensions of the batch.
Values with_layout(Builder& b, const MappedNode& n) {
  Values out = with_new_letter(b, n);
  std::optional<Layout> layout = n.view.graph->value(n.view.out(0)).layout;
  if (layout)
    for (Sbp& entry : *layout)
      if (entry.is_split()) entry = S(entry.dim + 1);
  b.graph().value(out[0]).layout = std::move(layout);
  return out;
}

ValueId permuted(Builder& b, ValueId x, const Ints& perm) {
  for (std::size_t d = 0; d < perm.size(); ++d)
    if (perm[d] != static_cast<std::int64_t>(d)) return build::transpose(b, x, perm);
  return x;
}

ValueId reshaped(Builder& b, ValueId x, const Shape& shape) {
  return b.type(x).shape == shape ? x : build::reshape(b, x, shape);
}

// Moves dimension `from` to the position `to`.
ValueId moved(Builder& b, ValueId x, std::size_t from, std::size_t to) {
  Ints perm(b.type(x).shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + static_cast<std::ptrdiff_t>(from));
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
  return permuted(b, x, perm);
}

// A dimension of an element that consists of `outer` groups; the batch is between the groups and their elements.
struct MergedDim {
  std::size_t dim = 0;
  std::int64_t outer = 1;
};

// x [batch, ..., outer * inner, ...] as [..., outer * batch * inner, ...].
ValueId merge_batch(Builder& b, ValueId x, const MergedDim& at) {
  Shape split = b.type(x).shape;
  const std::int64_t size = split[0], inner = split[at.dim + 1] / at.outer;
  split[at.dim + 1] = inner;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(at.dim + 1), at.outer);
  Shape merged(split.begin() + 1, split.end());
  merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(at.dim));
  merged[at.dim] = at.outer * size * inner;
  if (at.outer == 1 && at.dim == 0) return reshaped(b, x, merged);
  return reshaped(b, moved(b, reshaped(b, x, split), 0, at.dim + 1), merged);
}

// The reverse: y [..., outer * batch * inner, ...] as [batch, ..., outer * inner, ...], of which `element` is the shape
// of one element.
ValueId split_batch(Builder& b, ValueId y, const MergedDim& at, std::int64_t size, const Shape& element) {
  Shape split = element;
  split[at.dim] = element[at.dim] / at.outer;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(at.dim), {at.outer, size});
  const Shape out = with_first(element, size);
  if (at.outer == 1 && at.dim == 0) return reshaped(b, y, out);
  return reshaped(b, moved(b, reshaped(b, y, split), at.dim + 1, 0), out);
}

// A matrix product with one mapped operand has more rows or columns.
Values matmul(Builder& b, const MappedNode& n) {
  if (n.is_mapped(0) && n.is_mapped(1)) return with_new_letter(b, n);
  const bool is_left = n.is_mapped(0),
             is_transposed = n.view.attrs().flag(is_left ? "transpose_a" : "transpose_b", false);
  const auto rank = to_size(n.view.in_type(0).rank());
  Values inputs = {n.in[0].id, n.in[1].id};
  ValueId& input = inputs[is_left ? 0 : 1];
  input = merge_batch(b, input, {is_left != is_transposed ? rank - 2 : rank - 1});
  const ValueId y = b.add("matmul", inputs, n.view.attrs())[0];
  return {split_batch(b, y, {is_left ? rank - 2 : rank - 1}, n.size, n.view.out_type(0).shape)};
}

// Where a convolution or a gradient of one merges the batch: with the images or channels of one operand or, if both are
// mapped, with the groups. The number of groups of channels is `outer` where {grouped} is set.
struct ConvMerge {
  std::string_view op;
  bool first, second;  // which operands are mapped
  struct Place {
    std::size_t dim;
    bool grouped;
  } in0, in1, out;
};
constexpr ConvMerge conv_merges[] = {
    {"conv2d", true, false, {0, false}, {}, {0, false}},
    {"conv2d", false, true, {}, {0, true}, {1, true}},
    {"conv2d", true, true, {1, false}, {0, false}, {1, false}},
    {"conv2d_grad_input", true, false, {0, false}, {}, {0, false}},
    {"conv2d_grad_input", false, true, {}, {1, false}, {1, true}},
    {"conv2d_grad_input", true, true, {1, false}, {0, false}, {1, false}},
    {"conv2d_grad_weight", true, false, {1, true}, {}, {1, false}},
    {"conv2d_grad_weight", false, true, {}, {1, true}, {0, true}},
    {"conv2d_grad_weight", true, true, {1, false}, {1, false}, {0, false}},
};

Values conv(Builder& b, const MappedNode& n) {
  const std::string& name = n.view.node().op->name;
  const std::int64_t groups = n.view.attrs().integer("groups", 1);
  for (const ConvMerge& row : conv_merges) {
    if (row.op != name || row.first != n.is_mapped(0) || row.second != n.is_mapped(1)) continue;
    const auto merged_dim = [&](const ConvMerge::Place& at) { return MergedDim{at.dim, at.grouped ? groups : 1}; };
    Values inputs = {n.in[0].id, n.in[1].id};
    if (row.first) inputs[0] = merge_batch(b, inputs[0], merged_dim(row.in0));
    if (row.second) inputs[1] = merge_batch(b, inputs[1], merged_dim(row.in1));
    Attrs attrs = n.view.attrs();
    if (row.first && row.second) attrs.set("groups", groups * n.size);
    if (attrs.has("shape")) {
      Shape shape = attrs.ints("shape");
      shape[row.out.dim] *= n.size;
      attrs.set("shape", shape);
    }
    const ValueId y = b.add(name, inputs, std::move(attrs))[0];
    return {split_batch(b, y, merged_dim(row.out), n.size, n.view.out_type(0).shape)};
  }
  return {};
}

// Both operands of a convolution are mapped and the batch is empty: there would be no group.
Values conv_or_empty(Builder& b, const MappedNode& n) {
  if (n.size > 0 || !n.is_mapped(0) || !n.is_mapped(1)) return conv(b, n);
  const TensorType& type = n.view.out_type(0);
  return {build::constant(b, {type.dtype, with_first(type.shape, 0)}, 0)};
}

// Pools have exactly the dimensions [n, c, h, w], so the batch is merged with n.
Values with_merged_images(Builder& b, const MappedNode& n) {
  Values inputs;
  for (std::size_t i = 0; i < n.in.size(); ++i) inputs.push_back(merge_batch(b, operand(b, n, i), {}));
  Attrs attrs = n.view.attrs();
  if (attrs.has("shape")) {
    Shape shape = attrs.ints("shape");
    shape[0] *= n.size;
    attrs.set("shape", shape);
  }
  Values out = b.add(n.view.node().op->name, inputs, std::move(attrs));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = split_batch(b, out[i], {}, n.size, n.view.out_type(i).shape);
  return out;
}

// An index tensor [batch, i...] as [batch, count, row], which selects single elements instead of rows.
ValueId element_index(Builder& b, ValueId index, std::int64_t size, std::int64_t count, std::int64_t row) {
  return build::broadcast(b, reshaped(b, index, {size, count}), {size, count, row}, {0, 1});
}

std::int64_t count_from(const Shape& shape, std::size_t first) {
  return count_of(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end()));
}

Values gather(Builder& b, const MappedNode& n) {
  const TensorType &table = n.view.in_type(0), &index = n.view.in_type(1);
  if (!n.is_mapped(0)) return {build::gather(b, n.in[0].id, n.in[1].id)};
  if (!n.is_mapped(1)) {  // the rows of the table are the rows of all elements
    const ValueId rows = build::gather(b, moved(b, n.in[0].id, 0, 1), n.in[1].id);
    return {moved(b, rows, to_size(index.rank()), 0)};
  }
  const std::int64_t row = count_from(table.shape, 1);
  const ValueId elements = element_index(b, n.in[1].id, n.size, index.count(), row);
  const ValueId tables = reshaped(b, n.in[0].id, {n.size, table.shape[0], row});
  const ValueId out = build::take_along(b, tables, elements, 1);
  return {reshaped(b, out, with_first(n.view.out_type(0).shape, n.size))};
}

Values scatter_add(Builder& b, const MappedNode& n) {
  const TensorType &index = n.view.in_type(0), &updates = n.view.in_type(1), &out = n.view.out_type(0);
  const auto rank = to_size(index.rank());
  if (!n.is_mapped(0)) {
    const ValueId rows = moved(b, n.in[1].id, 0, rank);
    return {moved(b, build::scatter_add(b, n.in[0].id, rows, out.shape[0]), 1, 0)};
  }
  const std::int64_t row = count_from(updates.shape, rank);
  const ValueId elements = element_index(b, n.in[0].id, n.size, index.count(), row);
  const ValueId values = reshaped(b, operand(b, n, 1), {n.size, index.count(), row});
  const ValueId sums = build::add_along(b, elements, values, out.shape[0], 1);
  return {reshaped(b, sums, with_first(out.shape, n.size))};
}

struct Row {
  std::string_view op;
  VmapRule rule;
};
constexpr Row rows[] = {
    {"pointwise", with_new_letter},
    {"reduce_sum", with_new_letter},
    {"reduce_max", with_new_letter},
    {"reduce_min", with_new_letter},
    {"broadcast", with_new_letter},
    {"reshape", with_new_letter},
    {"transpose", with_new_letter},
    {"slice", with_new_letter},
    {"concat", with_new_letter},
    {"pad", with_new_letter},
    {"cumsum", with_new_letter},
    {"sort", with_new_letter},
    {"take_along", with_new_letter},
    {"add_along", with_new_letter},
    {"resize", with_new_letter},
    {"resize_grad", with_new_letter},
    {"one_hot", with_new_letter},
    {"arg_max", with_new_letter},
    {"copy", with_new_letter},
    {"layout", with_layout},
    {"matmul", matmul},
    {"conv2d", conv_or_empty},
    {"conv2d_grad_input", conv_or_empty},
    {"conv2d_grad_weight", conv_or_empty},
    {"max_pool", with_merged_images},
    {"max_pool_grad", with_merged_images},
    {"avg_pool", with_merged_images},
    {"avg_pool_grad", with_merged_images},
    {"gather", gather},
    {"scatter_add", scatter_add},
};

}  // namespace

VmapRule vmap_rule(const OpDef& op) {
  if (op.elementwise) return with_new_letter;
  for (const Row& row : rows)
    if (row.op == op.name) return row.rule;
  return nullptr;
}

ValueId mapped(Builder& b, const MappedValue& value, const TensorType& type, std::int64_t size) {
  if (value.is_mapped) return value.id;
  Ints dims(type.shape.size());
  std::iota(dims.begin(), dims.end(), 1);
  return build::broadcast(b, value.id, with_first(type.shape, size), dims);
}

}  // namespace karez::ops
