// Law 7 for memory: the bytes that a plan's blocks add up to on each device are those that the session took there, at its peak.
#include <gtest/gtest.h>

#include "data/array_source.h"
#include "passes/pipeline.h"
#include "passes/test_programs.h"
#include "runtime/session.h"

namespace karez::tests {
namespace {

TEST(PeakMemory, PlannedIsWhatTheSessionTakes) {
  const KernelTable table(cpu_kernels());
  for (const char* text : {"", "data=3", "model=4", "data=2,model=2"}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse(text), {20, 24, 10}, 13));
    c.catalog = &table;
    compile(c);
    std::map<std::string, std::int64_t> planned;
    for (const Block& block : c.plan.blocks) {
      const PlanDevice& device = c.plan.devices[static_cast<std::size_t>(block.device.index)];
      planned[cat(device.rank, ".", device.device)] += block.bytes;
    }
    Session session({}, table);
    int plan = session.load(c.plan);
    Feeds feeds = {{"x", Feed{array_source(HostArray(TensorType{DType::f32, {13, 20}})), 0}},
                   {"labels", Feed{array_source(HostArray(TensorType{DType::i32, {13}})), 0}},
                   {"lr", Feed{array_source(HostArray(TensorType{DType::f32, {}})), 0}}};
    for (int i = 0; i < 3; ++i) session.launch(plan, feeds).wait();
    EXPECT_EQ(session.counters().peak_bytes, planned) << text;
  }
}

}  // namespace
}  // namespace karez::tests
