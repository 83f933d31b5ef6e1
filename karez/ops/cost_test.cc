// Tests the class and the amount of work of ops.
#include <gtest/gtest.h>

#include "karez/ops/all_ops.h"

namespace karez::ops {
namespace {

const OpTable& table() {
  static const OpTable ops = all_ops();
  return ops;
}
TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

Cost cost(const char* op, const std::vector<TensorType>& in, const std::vector<TensorType>& out,
          const Attrs& attrs = {}) {
  return cost_of(table().at(op), in, out, attrs);
}

void expect(const Cost& cost, WorkClass work, double flops, double bytes, double min_extent = 0) {
  EXPECT_EQ(cost.work, work);
  EXPECT_EQ(cost.flops, flops);
  EXPECT_EQ(cost.bytes, bytes);
  EXPECT_EQ(cost.min_extent, min_extent);
}

TEST(Cost, AMatmulReportsItsSmallestExtent) {
  expect(cost("matmul", {f32({8, 20}), f32({20, 30})}, {f32({8, 30})}), WorkClass::matmul, 2 * 8 * 20 * 30,
         4 * (160 + 600 + 240), 8);
  expect(cost("matmul", {f32({2, 40, 20}), f32({2, 30, 20})}, {f32({2, 40, 30})}, {{"transpose_b", true}}),
         WorkClass::matmul, 4 * 40 * 20 * 30, 4 * 2 * (800 + 600 + 1200), 20);
  EXPECT_EQ(cost("matmul", {f32({40, 20}), f32({20, 3})}, {f32({40, 3})}).min_extent, 3);
}

TEST(Cost, AConvolutionReportsTheChannelsInItsVectors) {
  const TensorType x = f32({2, 3, 10, 10}), w = f32({5, 3, 3, 3}), y = f32({2, 5, 8, 8});
  const double flops = 2.0 * 2 * 5 * 64 * 27, bytes = 4.0 * (600 + 135 + 640);
  expect(cost("conv2d", {x, w}, {y}), WorkClass::conv, flops, bytes, 5);
  expect(cost("conv2d_grad_input", {y, w}, {x}, {{"shape", x.shape}}), WorkClass::conv_input, flops, bytes, 3);
  expect(cost("conv2d_grad_weight", {x, y}, {w}, {{"kernel", Ints{3, 3}}}), WorkClass::conv_weight, flops, bytes, 5);
}

TEST(Cost, FunctionsAreCountedForEachElement) {
  expect(cost("add", {f32({10}), f32({10})}, {f32({10})}), WorkClass::memory, 0, 120);
  expect(cost("exp", {f32({10})}, {f32({10})}), WorkClass::memory, 10, 80);
  expect(cost("tanh", {f32({10})}, {f32({10})}), WorkClass::memory, 15, 80);
  expect(cost("pointwise", {f32({10})}, {f32({10})}, {{"expr", "max(x0, 0) * sqrt(x0)"}}), WorkClass::memory, 0, 80);
  expect(cost("pointwise", {f32({10})}, {f32({10})}, {{"expr", "phi(x0) + x0 * exp(-x0 * (x0 + 1))"}}),
         WorkClass::memory, 40, 80);
}

TEST(Cost, EveryWorkClassHasTheListedOps) {
  auto ops_of = [](WorkClass work) {
    std::string names;
    for (const OpDef* op : table().rows())
      if (op->work == work) names += cat(names.empty() ? "" : " ", op->name);
    return names;
  };
  EXPECT_EQ(ops_of(WorkClass::reduce), "reduce_max reduce_min reduce_sum");
  EXPECT_EQ(ops_of(WorkClass::pool), "avg_pool avg_pool_grad max_pool max_pool_grad resize resize_grad");
  EXPECT_EQ(ops_of(WorkClass::index), "add_along arg_max cumsum scatter_add take_along");
  EXPECT_EQ(ops_of(WorkClass::move), "assign cast concat copy one_hot pad slice");
  EXPECT_EQ(ops_of(WorkClass::update), "adam adam_if sgd sgd_if");
  EXPECT_EQ(cost("gather", {f32({100, 4}), {DType::i32, {3}}}, {f32({3, 4})}).work, WorkClass::index);
}

}  // namespace
}  // namespace karez::ops
