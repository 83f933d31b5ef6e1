// Tests that no call of the steps of examples and benchmarks runs on a plain kernel, on one device and on a 2 x 2 mesh.
#include <gtest/gtest.h>

#include <map>

#include "bench/models.h"
#include "karez/base/text.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

// Lists the plain kernels of a step's plan with their number of calls, "plain.matmul 1\n", and checks that the summary
// names them.
template <class Model> std::string plain_rows(const char* mesh, TensorType x, TensorType y) {
  Mesh shape = Mesh::parse(mesh);
  World world({.devices = shape.size()});
  Model net;
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh(shape.axes), [&](Tensor a, Tensor b) {
    Tensor loss = cross_entropy(net(a), b);
    adam.step(grad(loss, net.parameters()));
    return loss;
  });
  step(HostArray(x), HostArray(y)).wait();
  std::map<std::string, int> plain_calls;
  for (const Actor& actor : step.plan().actors)
    for (const Call& call : actor.calls)
      if (starts_with(call.kernel, "plain.")) ++plain_calls[call.kernel];
  std::string text;
  for (const auto& [kernel, count] : plain_calls) text += cat(kernel, " ", count, "\n");
  EXPECT_EQ(step.summary().find("on a plain kernel") != std::string::npos, !plain_calls.empty()) << step.summary();
  return text;
}

class PlainRows : public ::testing::TestWithParam<const char*> {};

TEST_P(PlainRows, NoCallOfAStepRunsOnAPlainKernel) {
  const TensorType images{DType::f32, {64, 1, 28, 28}}, labels{DType::i32, {64}};
  EXPECT_EQ(plain_rows<bench::Mlp>(GetParam(), images, labels), "");
  EXPECT_EQ(plain_rows<bench::Cnn>(GetParam(), images, labels), "");
  EXPECT_EQ(plain_rows<bench::Gpt>(GetParam(), {DType::i32, {12, 64}}, {DType::i32, {768}}), "");
}

INSTANTIATE_TEST_SUITE_P(Meshes, PlainRows, ::testing::Values("", "data=2,model=2"));

TEST(PlainRows, TheSummaryNamesPlainKernelsWithTheirShare) {
  World world;
  auto f = compile(world.mesh(""), [](Tensor x) { return matmul(x, x) + 1; });  // products of f64 have no fast kernel
  f(HostArray(TensorType{DType::f64, {16, 16}})).wait();
  EXPECT_NE(f.summary().find("1 call runs on a plain kernel"), std::string::npos) << f.summary();
  EXPECT_NE(f.summary().find("plain.matmul  1      50.0 %"), std::string::npos) << f.summary();
}

}  // namespace
}  // namespace karez::tests
