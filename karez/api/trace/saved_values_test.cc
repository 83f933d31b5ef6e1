// Tests that backward outside of compiled functions reads the values of an earlier computation instead of computing
// them again. A user-defined op counts the runs of its kernel.
#include "karez/api/trace/saved_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <optional>

#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/expression.h"
#include "karez/ops/compose.h"

namespace karez {
namespace {

// y = x * x for a f64 matrix x.
OpDef counted_op(bool has_gradient = true) {
  OpDef op;
  op.name = "counted";
  op.doc = "The square of x.";
  op.inputs = 1;
  op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector<TensorType>{in[0]}; };
  op.index = "i j -> i j";
  if (!has_gradient) {
    op.no_grad = "it is written in C";
    return op;
  }
  op.grad = [](Builder& b, const graph::NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    return {ops::build::mul(b, dy[0], ops::build::add(b, n.in(0), n.in(0)))};
  };
  return op;
}

kernels::KernelRow counted_kernel(std::atomic<int>& runs) {
  kernels::KernelRow row;
  row.name = "custom.counted";
  row.op = "counted";
  row.rank = 1;
  row.supports = [](const plan::CallSpec& c) { return c.in[0].contiguous() && c.out[0].contiguous(); };
  row.prepare = [&runs](const plan::CallSpec& c) -> kernels::PreparedKernel {
    return [&runs, count = c.out[0].count()](const kernels::KernelArgs& args) {
      ++runs;
      const auto* x = reinterpret_cast<const double*>(args.in[0]);
      auto* y = reinterpret_cast<double*>(args.out[0]);
      for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * x[i];
    };
  };
  return row;
}

Tensor counted(const Tensor& x) { return apply("counted", {x}); }

class SavedValues : public ::testing::Test {
 protected:
  std::atomic<int> runs{0};
  World world{{.ops = {counted_op()}, .kernels = {counted_kernel(runs)}}};
  DeviceMesh mesh = world.mesh();
  Interactive scope{mesh};
  Tensor x = leaf();

  static Tensor leaf() {
    Tensor out(HostArray::of<double>({1, 2}, {0.5, -2}));
    require_gradient(out);
    return out;
  }
  // d/dx of sum(sin((2x)^2)).
  static std::vector<double> expected() {
    std::vector<double> out;
    for (const double v : {0.5, -2.0}) out.push_back(std::cos(4 * v * v) * 8 * v);
    return out;
  }
  std::vector<double> gradient(const Tensor& loss, const BackwardOptions& options = {}) const {
    return list<double>(backward({loss}, {Tensor()}, {{}, {x}}, options)[0]);
  }
  void expect_gradient(const std::vector<double>& got, const char* what) const {
    ASSERT_EQ(got.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(got[i], expected()[i], 1e-12) << what;
  }
};

TEST_F(SavedValues, NothingRunsTwiceInAnyOrderOfReads) {
  for (const bool keeps_intermediate : {false, true}) {
    for (const bool reads_before : {false, true}) {
      for (const bool retains : {false, true}) {
        runs = 0;
        std::optional<Tensor> intermediate = counted(x * 2);
        const Tensor loss = sum(sin(*intermediate));
        if (!keeps_intermediate) intermediate.reset();
        if (reads_before) loss.item();
        const char* what = reads_before ? "the loss was read before" : "the loss was not read";
        if (retains) expect_gradient(gradient(loss, {.retain_graph = true}), what);
        expect_gradient(gradient(loss), what);
        EXPECT_NEAR(loss.item(), std::sin(1) + std::sin(16), 1e-12);
        EXPECT_EQ(runs, 1) << what << (retains ? ", two calls of backward" : "")
                           << (keeps_intermediate ? ", with an intermediate tensor" : "");
      }
    }
  }
}

TEST_F(SavedValues, APlanThatIsUsedAgainKeepsTheValuesOfEachCall) {
  for (int i = 0; i < 3; ++i) {
    x = leaf();
    const Tensor loss = sum(sin(counted(x * 2)));
    loss.item();
    expect_gradient(gradient(loss), "the same program again");
    EXPECT_EQ(runs, i + 1);
  }
}

TEST_F(SavedValues, ValuesThatAreNotRecordedAreNotKept) {
  const Tensor plain(HostArray::of<double>({1, 2}, {0.5, -2}));
  {
    const NoGrad no_grad;
    EXPECT_NEAR(sum(sin(counted(x * 2))).item(), std::sin(1) + std::sin(16), 1e-12);
  }
  const Tensor hidden = counted(x * 2), loss = sum(sin(hidden)) * sum(plain);
  const auto expression = hidden.lazy->record().expression;
  EXPECT_EQ(expression->saved_values().size(), 0u);
  loss.item();
  EXPECT_EQ(expression->saved_values().size(), 0u) << "the tensor itself has the value";
}

TEST_F(SavedValues, KeptValuesAreFreedWithTheirRecord) {
  std::weak_ptr<const Expression> first, second;
  {
    const Tensor loss = sum(sin(counted(x * 2)));
    first = loss.lazy->record().expression;
    loss.item();
    const auto gradients = backward({loss}, {Tensor()}, {{}, {x}}, {.retain_graph = true});  // not read
  }
  EXPECT_TRUE(first.expired());
  const Tensor loss = sum(sin(counted(x * 2)));
  second = loss.lazy->record().expression;
  gradient(loss, {.retain_graph = true});
  EXPECT_FALSE(second.expired());
  gradient(loss);
  EXPECT_TRUE(second.expired());
}

TEST_F(SavedValues, AnOpWithoutGradientFailsInBackwardAndNotInTheForwardPass) {
  const Tensor loss = sum(cast(arg_max(x * 2, 1), DType::f64)) + sum(x);
  EXPECT_NEAR(loss.item(), -1.5, 1e-12);
  EXPECT_EQ(gradient(loss), (std::vector<double>{1, 1}));
}

TEST(OpsWithoutAGradient, BackwardNamesTheOpUnlessTheValueIsDetached) {
  std::atomic<int> runs{0};
  World world({.ops = {counted_op(false)}, .kernels = {counted_kernel(runs)}});
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  Tensor x(HostArray::of<double>({1, 2}, {0.5, -2}));
  EXPECT_FALSE(requires_gradient(counted(x)));
  require_gradient(x);
  for (const bool is_read : {false, true}) {
    const Tensor y = counted(x);
    EXPECT_TRUE(requires_gradient(y));
    if (is_read) { EXPECT_EQ(list<double>(y), (std::vector<double>{0.25, 4})); }
    const Tensor loss = sum(y * x);
    if (is_read) { EXPECT_EQ(loss.item(), 0.125 - 8); }
    const std::string error = error_of([&] { backward({loss}, {Tensor()}, {{}, {x}}); });
    EXPECT_THAT(error, ::testing::HasSubstr("no gradient passes through counted: it is written in C"));
    EXPECT_THAT(error, ::testing::HasSubstr("saved_values_test.cc"));
    const Tensor detached = sum(counted(stop_gradient(x)) * x);
    EXPECT_EQ(list<double>(backward({detached}, {Tensor()}, {{}, {x}})[0]), (std::vector<double>{0.25, 4}));
  }
}

}  // namespace
}  // namespace karez
