// Tests of the workers that serve the streams of a plan.
#include "karez/passes/lowering/plan_streams.h"

#include <gtest/gtest.h>

#include "karez/passes/lowering/test_emit.h"

namespace karez::passes {
namespace {

using testing::one_transfer;

// A worker is blocked while an act of a compute stream runs. A separate worker can continue transfers during that time.
TEST(Emit, TransfersBetweenRanksHaveASeparateWorkerIfTheyAreLong) {
  auto workers = [](int ranks, double beta) {
    Mesh mesh = Mesh::parse("d=4");
    for (int p = 0; p < 4; ++p) mesh.devices[static_cast<std::size_t>(p)] = {p * ranks / 4, p % (4 / ranks)};
    CostTable costs;
    costs.link = {1e-5, beta};
    std::vector<int> out;
    for (const Stream& stream : one_transfer(mesh, "all_reduce", P(), B(), {100, 100}, 0, costs).plan.streams)
      out.push_back(stream.worker);
    return out;
  };
  const std::vector<int> shared{0, 0, 0, 0, 0}, separate{0, 1, 0, 1, 0};  // compute and comm of both devices, host
  EXPECT_EQ(workers(2, 1e-7), separate) << "a transfer takes 6 ms";
  EXPECT_EQ(workers(2, 1e-10), shared) << "a transfer takes a few microseconds";
  EXPECT_EQ(workers(1, 1e-7), std::vector<int>(9, 0)) << "within one rank the worker copies the data itself";
}

}  // namespace
}  // namespace karez::passes
