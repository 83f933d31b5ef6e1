// Tests that the plain kernel of every op gives the same bits for random strides as for row-major strides.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "karez/kernels/cpu/test_strides.h"
#include "tests/evaluate.h"
#include "tests/op_cases.h"

namespace karez::tests {
namespace {

bool same_bytes(const HostArray& a, const HostArray& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.type().bytes())) == 0;
}

TEST(KernelStrides, StridesDoNotChangeAnyBitOfTheResultOfAnOp) {
  const OpTable ops = all_ops();
  const KernelTable table(plain_kernels());
  const unsigned seed = kernels::test_seed();
  std::mt19937 random(seed);
  std::mt19937_64 numbers(seed);
  int compared = 0;
  for (const OpCase& c : op_cases()) {
    if (pointwise_row(c.op) != nullptr) continue;  // the cases of the op pointwise cover their kernel
    SCOPED_TRACE(cat("seed ", seed, ": ", print(c)));
    const Graph graph = graph_of(c, ops);
    const NodeView node{&graph, NodeId(graph.nodes.size() - 1)};
    const CallSpec call = stored_call(node, node.in_types(), node.out_types(), whole_attrs(node));
    const auto inputs = random_inputs(c, numbers);
    const auto expected = run_call(table, call, inputs);
    for (int round = 0; round < 4; ++round, ++compared) {
      CallSpec strided = call;
      for (std::vector<View>* views : {&strided.in, &strided.out})
        for (View& view : *views) view = kernels::random_view(random, view.dtype, view.shape);
      const auto results = run_call(table, strided, inputs);
      for (std::size_t i = 0; i < results.size(); ++i)
        EXPECT_TRUE(same_bytes(results[i], expected[i])) << "result " << i << " of " << print(strided);
    }
  }
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace karez::tests
