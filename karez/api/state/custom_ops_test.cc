// Tests of user-defined ops and kernels: programs that use them train on every mesh, errors name the op and quote the
// user's line, and duplicate names are rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "karez/api/compile.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_texts.h"
#include "karez/ops/build.h"
#include "karez/ops/compose.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

// Returns an op that computes y = by * x * x for a matrix x.
OpDef squared() {
  OpDef op;
  op.name = "squared";
  op.doc = "Returns `by` times the square of x.";
  op.inputs = 1;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    require(attrs.real("by") > 0, "squared: by = ", attrs.real("by"), " is not positive");
    return std::vector<TensorType>{in[0]};
  };
  op.index = "i j -> i j";
  op.grad = [](Builder& b, const graph::NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    const DType dtype = b.type(n.in(0)).dtype;
    ValueId twice = ops::build::binary(b, "mul", n.in(0), ops::build::scalar(b, dtype, 2 * n.attrs().real("by")));
    return {ops::build::binary(b, "mul", dy[0], twice)};
  };
  return op;
}

kernels::KernelRow squared_kernel(std::atomic<int>& prepared) {
  kernels::KernelRow row;
  row.name = "custom.squared";
  row.op = "squared";
  row.rank = 1;
  row.supports = [](const plan::CallSpec& c) {
    return c.in[0].dtype == DType::f64 && c.in[0].contiguous() && c.out[0].contiguous();
  };
  row.prepare = [&prepared](const plan::CallSpec& c) -> kernels::PreparedKernel {
    ++prepared;
    return [count = c.out[0].count(), by = c.attrs.real("by")](const kernels::KernelArgs& args) {
      const auto* x = reinterpret_cast<const double*>(args.in[0]);
      auto* y = reinterpret_cast<double*>(args.out[0]);
      for (std::int64_t i = 0; i < count; ++i) y[i] = by * x[i] * x[i];
    };
  };
  return row;
}

struct Net : nn::Module {
  Net() : Module("", DType::f64) {}
  nn::Linear fc{*this, "fc", 3, 2};
};

HostArray input() {
  HostArray x(TensorType{DType::f64, {8, 3}});
  for (std::int64_t i = 0; i < x.count(); ++i)
    x.data<double>()[static_cast<std::size_t>(i)] = std::sin(static_cast<double>(i));
  return x;
}

// Returns the losses of ten steps. If `use_custom_op` is true, the loss uses the op above, otherwise built-in
// arithmetic.
std::vector<double> losses(std::string_view mesh, bool use_custom_op, std::atomic<int>& prepared) {
  World world({.devices = 4, .ops = {squared()}, .kernels = {squared_kernel(prepared)}});
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.05});
  auto step = compile(world.mesh(mesh), [&](Tensor x) {
    Tensor difference = net.fc(x) - 0.5;
    Tensor loss = mean(use_custom_op ? apply("squared", {difference}, {{"by", 3.0}}) : difference * difference * 3.0);
    sgd.step(grad(loss, net.parameters()));
    return loss;
  });
  std::vector<double> out;
  for (int i = 0; i < 10; ++i) out.push_back(step(input()).item());
  return out;
}

TEST(CustomOps, AProgramWithAUserDefinedOpAndKernelTrainsOnEveryMesh) {
  std::atomic<int> prepared{0}, unused{0};
  const auto expected = losses("", false, unused);
  EXPECT_EQ(unused, 0);
  EXPECT_LT(expected.back(), expected.front());
  for (const char* mesh : {"", "data=2", "data=4", "data=2,model=2"}) {
    prepared = 0;
    const auto result = losses(mesh, true, prepared);
    EXPECT_GE(prepared, 1) << "the user's kernel must run";
    for (std::size_t i = 0; i < result.size(); ++i)
      EXPECT_NEAR(result[i], expected[i], 1e-12 * expected[i]) << mesh << ", step " << i;
  }
}

TEST(CustomOps, AnOpCanBeAppliedOutsideOfCompiledFunctions) {
  std::atomic<int> prepared{0};
  World world({.ops = {squared()}, .kernels = {squared_kernel(prepared)}});
  const HostArray x = HostArray::of<double>({1, 2}, {2, -3});
  const Array on_mesh = compile(world.mesh(), [](Tensor t) { return t * 1; })(x).value();
  EXPECT_EQ(list<double>(apply("squared", {on_mesh}, {{"by", 2.0}})), (std::vector<double>{8, 18}));
  const Interactive scope(world.mesh());
  EXPECT_EQ(list<double>(apply("squared", {x}, {{"by", 2.0}})), (std::vector<double>{8, 18}));
  EXPECT_GE(prepared, 1);
}

TEST(CustomOps, ADuplicateNameIsAnError) {
  std::atomic<int> prepared{0};
  OpDef relu = squared();
  relu.name = "relu";
  EXPECT_EQ(error_of([&] {
              World({.ops = {squared(), relu}});
            }),
            "WorldOptions::ops[1]: the name 'relu' is already used by a built-in op");
  EXPECT_EQ(error_of([&] {
              World({.ops = {squared(), squared()}});
            }),
            "WorldOptions::ops[1]: the name 'squared' is already used by row 0");
  auto kernel = squared_kernel(prepared), duplicate = kernel;
  duplicate.name = "plain.matmul";
  EXPECT_EQ(error_of([&] { World({.kernels = {duplicate}}); }),
            "WorldOptions::kernels[0]: the name 'plain.matmul' is already used by a built-in kernel");
  EXPECT_EQ(error_of([&] {
              World({.kernels = {kernel, kernel}});
            }),
            "WorldOptions::kernels[1]: the name 'custom.squared' is already used by row 0");
}

TEST(CustomOps, ErrorsQuoteTheUsersLine) {
  std::atomic<int> prepared{0};
  World world({.ops = {squared()}, .kernels = {squared_kernel(prepared)}});
  auto error = [&](auto body) { return error_of([&] { compile(world.mesh(), body)(input()); }); };
  EXPECT_THAT(error([](Tensor x) { return apply("squarred", {x}); }),
              HasSubstr("unknown op 'squarred'; the nearest of "));
  EXPECT_THAT(error([](Tensor x) { return apply("squarred", {x}); }), HasSubstr(" are: squared, "));
  EXPECT_THAT(error([](Tensor x) {
                return apply("squared", {x}, {{"by", -1.0}});
              }),
              HasSubstr("squared: by = -1.0 is not positive\n  at custom_ops_test.cc:"));
  EXPECT_THAT(error([](Tensor x) {
                return apply("squared", {x, x}, {{"by", 1.0}});
              }),
              HasSubstr("squared expects 1 operand, got 2\n  at custom_ops_test.cc:"));
}

TEST(CustomOps, AnOpWithoutAKernelIsACompileError) {
  World world({.ops = {squared()}});
  auto f = compile(world.mesh(), [](Tensor x) { return apply("squared", {x}, {{"by", 1.0}}); });
  std::string error = error_of([&] { f(input()); });
  EXPECT_THAT(error, HasSubstr("no kernel implements 'squared'"));
  EXPECT_THAT(error, HasSubstr("custom_ops_test.cc:"));
}

TEST(CustomOps, ApplyAcceptsBuiltinOpsAndNumbers) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x) {
    return sum(apply("add", {x, broadcast_to(apply("neg", {full({}, 2, DType::f64)}), {8, 3})}));
  });
  auto g = compile(world.mesh(), [](Tensor x) { return sum(x) - 48.0; });
  EXPECT_NEAR(f(input()).item(), g(input()).item(), 1e-12);
  auto scalar = compile(world.mesh(), [](Tensor x) { return apply("mul", {sum(x), 2.0}); });
  auto twice = compile(world.mesh(), [](Tensor x) { return sum(x) + sum(x); });
  EXPECT_EQ(scalar(input()).item(), twice(input()).item()) << "the number must get the tensor's dtype";
}

}  // namespace
}  // namespace karez
