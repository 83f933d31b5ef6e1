// Whole compiles of small steps: what the plan holds, and what goes wrong with a message.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include "passes/test_programs.h"

namespace karez {
namespace {

TEST(Pipeline, AnMlpOnOneDeviceIsAHandfulOfActors) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::of({}), {784, 256, 128, 10}, 64));
  compile(c);
  EXPECT_TRUE(c.plan.transfers.empty());
  EXPECT_LE(c.plan.actors.size(), 8u) << print(c.plan);
  std::puts(print(c.graph).c_str());
  std::puts(print(c.plan).c_str());
  std::puts(summary(c.plan).c_str());
}

TEST(Pipeline, AnMlpOnFourDevices) {
  for (const char* mesh : {"data=4", "model=4", "data=2,model=2"}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse(mesh), {784, 256, 128, 10}, 64));
    compile(c);
    for (auto& p : c.passes) std::printf("%s %g\n", p.name.c_str(), p.seconds);
    std::puts(c.shard_report.c_str());
    std::puts(summary(c.plan).c_str());
  }
}

}  // namespace
}  // namespace karez
