// Defines the ops of the table for tests of graphs.
#include "karez/graph/test_ops.h"

namespace karez::graph {

std::vector<TensorType> infer_from_attrs(std::span<const TensorType>, const Attrs& attrs) {
  return {{dtype_from(attrs.text("dtype", "f32")), attrs.ints("shape")}};
}

std::vector<TensorType> infer_first(std::span<const TensorType> in, const Attrs&) { return {in[0]}; }

std::vector<TensorType> infer_equal(std::span<const TensorType> in, const Attrs&) {
  for (const auto& type : in) require(type == in[0], "operands differ: ", in[0], " and ", type);
  return {in[0]};
}

std::vector<TensorType> infer_matmul(std::span<const TensorType> in, const Attrs&) {
  require(in[0].shape[1] == in[1].shape[0], "matmul: inner sizes differ: ", in[0].shape[1], " and ", in[1].shape[0]);
  return {{in[0].dtype, {in[0].shape[0], in[1].shape[1]}}};
}

OpTable test_ops() {
  auto row = [](std::string name, int inputs, std::string index, decltype(OpDef::infer) infer) {
    OpDef op;
    op.name = std::move(name);
    op.inputs = inputs;
    op.index = std::move(index);
    op.infer = std::move(infer);
    if (op.name == "input") op.role = Role::source;
    if (op.name == "variable") op.role = Role::state;
    if (op.name == "transfer") op.role = Role::transfer;
    if (op.name == "sum_acts") op.role = Role::accumulate;
    if (op.name == "join_acts") op.role = Role::micro_join;
    if (op.name == "part") op.role = Role::micro_slice;
    return op;
  };
  auto first_dim = [](std::span<const TensorType> in, const Attrs&) {
    return std::vector<TensorType>{{in[0].dtype, {in[0].shape[0]}}};
  };
  return OpTable({
      row("input", 0, "-> n _", infer_from_attrs),
      row("variable", 0, "-> a b", infer_from_attrs),
      row("matmul", 2, "m k, k n -> m n | linear {0} {1}", infer_matmul),
      row("add", 2, "a b, a b -> a b | linear {0, 1}", infer_equal),
      row("transfer", 1, "", infer_first),
      row("relu", 1, "a b -> a b", infer_first),
      row("is_zero", 1, "a b -> a b",
          [](auto in, const Attrs&) {
            return std::vector<TensorType>{{DType::b8, in[0].shape}};
          }),
      row("any_zero", 1, "i j -> i",
          [](auto in, const Attrs&) {
            return std::vector<TensorType>{{DType::b8, {in[0].shape[0]}}};
          }),
      row("reduce_max", 1, "i j -> i | j by max", first_dim),
      row("reduce_sum", 1, "i j -> i | linear {0}", first_dim),
      row("total", 1, "i j -> ",
          [](auto in, const Attrs&) {
            return std::vector<TensorType>{{in[0].dtype, {}}};
          }),
      row("fill", 1, "-> a", infer_from_attrs),
      row("transpose", 1, "i j -> j i | moves",
          [](auto in, const Attrs&) {
            return std::vector<TensorType>{{in[0].dtype, {in[0].shape[1], in[0].shape[0]}}};
          }),
      row("flatten", 1, "a b -> a | a divides 12 | moves",
          [](auto in, const Attrs&) {
            return std::vector<TensorType>{{in[0].dtype, {in[0].count()}}};
          }),
      row("crop", 1, "n _ -> n _",
          [](auto in, const Attrs&) {
            return std::vector<TensorType>{{in[0].dtype, {in[0].shape[0], in[0].shape[1] - 1}}};
          }),
      row("top", 1, "i j -> i, i",
          [](auto in, const Attrs&) {
            return std::vector<TensorType>{{in[0].dtype, {in[0].shape[0]}}, {DType::i32, {in[0].shape[0]}}};
          }),
      row("sum_acts", 1, "a b -> a b", infer_first),
      row("join_acts", 1, "_ b -> _ b",
          [](auto in, const Attrs& attrs) {
            return std::vector<TensorType>{{in[0].dtype, {in[0].shape[0] * attrs.integer("parts"), in[0].shape[1]}}};
          }),
      row("part", 1, "_ b -> _ b",
          [](auto in, const Attrs& attrs) {
            return std::vector<TensorType>{{in[0].dtype, {in[0].shape[0] / attrs.integer("parts"), in[0].shape[1]}}};
          }),
      row("scan", -1, "", infer_first),
      row("wrong", 1, "a a -> a", first_dim),
      row("uneven", 1, "a b -> a b",
          [](auto in, const Attrs&) {
            return std::vector<TensorType>{{in[0].dtype, {in[0].shape[0], in[0].shape[1] + 1}}};
          }),
  });
}

}  // namespace karez::graph
