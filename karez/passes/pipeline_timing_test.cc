// Tests of the compile time of programs with thousands of nodes.
#include <gtest/gtest.h>

#include <chrono>

#include "karez/passes/compile.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

// Builds a chain of pointwise nodes with a few weights in it, so that the program has gradients, updates and transfers.
Graph long_chain(const char* mesh, int nodes) {
  Graph graph;
  graph.meshes = {Mesh::parse(mesh)};
  Builder b(graph, table());
  ValueId x = build::input(b, "x", {DType::f32, {64, 64}}), learning_rate = build::input(b, "lr", {DType::f32, {}});
  std::vector<ValueId> weights, momenta;
  for (int n = 0; n < nodes; ++n) {
    if (n % 100 == 50) {
      std::string name = cat("w", n);
      weights.push_back(testing::parameter(b, name, {DType::f32, {64, 64}}));
      momenta.push_back(testing::parameter(b, "m." + name, {DType::f32, {64, 64}}));
      x = build::matmul(b, x, weights.back());
    } else {
      x = n % 3 == 0 ? build::tanh(b, x) : n % 3 == 1 ? build::sigmoid(b, x) : build::neg(b, x);
    }
  }
  for (std::size_t k = 0; k < weights.size(); ++k) {
    auto next = build::sgd(b, weights[k], momenta[k], build::matmul(b, x, weights[k], {.transpose_a = true}),
                           learning_rate, {.momentum = 0.9});
    graph.variables[2 * k].updated = next.w, graph.variables[2 * k + 1].updated = next.m;
  }
  graph.outputs = {{"y", x}};
  return graph;
}

TEST(Pipeline, ProgramsOfTwoThousandNodesCompileInSeconds) {
  for (const char* mesh : {"", "data=4"}) {
    Compilation c = testing::compilation(long_chain(mesh, 2000));
    auto begin = std::chrono::steady_clock::now();
    compile(c);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::string times;
    for (const PassTime& pass : c.passes) times += cat(pass.name, " ", pass.seconds, " ");
    EXPECT_LT(seconds, 20) << times;  // far above the time on an idle machine: the bound detects only quadratic time
  }
}

}  // namespace
}  // namespace karez::passes
