// Tests that planned memory equals allocated memory. When a session loads a plan, the arena of a device grows by the
// bytes of registers and scratch, and every other block is allocated. Launches later allocate only their results.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "karez/base/text.h"
#include "karez/data/array_source.h"
#include "karez/passes/compile.h"
#include "karez/passes/test_programs.h"
#include "karez/runtime/session.h"
#include "tests/allocations.h"

namespace karez::tests {
namespace {

TEST(PeakMemory, PlannedBlocksEqualAllocatedBlocks) {
  const KernelTable table(cpu_kernels());
  for (const char* text : {"", "data=3", "model=4", "data=2,model=2"}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse(text), {20, 24, 10}, 13));
    c.catalog = &table;
    compile(c);
    std::map<std::string, std::int64_t> planned, arenas;
    std::vector<std::size_t> blocks, allocated;
    const auto fetched = static_cast<std::size_t>(std::count_if(
        c.plan.actors.begin(), c.plan.actors.end(), [](const Actor& actor) { return actor.body == BodyKind::fetch; }));
    for (const Block& block : c.plan.blocks) {
      if (block.kind == BlockKind::external) continue;  // allocated by each launch
      const PlanDevice& device = c.plan.devices[block.device];
      planned[cat(device.rank, ".", device.device)] += block.bytes;
      if (block.kind == BlockKind::scratch || block.kind == BlockKind::reg)
        arenas[cat(device.rank, ".", device.device)] += block.bytes;
      else
        blocks.push_back(std::max<std::size_t>(
            64, (static_cast<std::size_t>(block.bytes) + 63) / 64 * 64));  // allocations are whole cache lines
    }
    Session session({}, table);
    block_sizes.begin();
    int plan = session.load(c.plan);
    block_sizes.end();
    for (std::size_t i = 0; i < block_sizes.count(); ++i) allocated.push_back(block_sizes[i]);
    std::sort(blocks.begin(), blocks.end());
    std::sort(allocated.begin(), allocated.end());
    EXPECT_GT(blocks.size(), 0u);
    // The other aligned allocations are objects of the engine: one per worker, and a channel for each ordered pair of
    // members.
    std::vector<std::size_t> missing, other_allocations;
    std::set_difference(blocks.begin(), blocks.end(), allocated.begin(), allocated.end(), std::back_inserter(missing));
    std::set_difference(allocated.begin(), allocated.end(), blocks.begin(), blocks.end(),
                        std::back_inserter(other_allocations));
    std::size_t objects = static_cast<std::size_t>(session.counters().workers);
    for (const Communicator& group : c.plan.communicators) objects += group.members.size() * (group.members.size() - 1);
    if (BlockSizes::is_active) {
      EXPECT_EQ(missing, std::vector<std::size_t>{}) << text << ": blocks without an allocation";
      EXPECT_EQ(other_allocations.size(), objects) << text << ": " << join(other_allocations, " ");
    }
    Feeds feeds = {{"x", Feed{array_source(HostArray(TensorType{DType::f32, {13, 20}})), 0}},
                   {"labels", Feed{array_source(HostArray(TensorType{DType::i32, {13}})), 0}},
                   {"lr", Feed{array_source(HostArray(TensorType{DType::f32, {}})), 0}}};
    block_sizes.begin();
    for (int i = 0; i < 3; ++i) session.launch(plan, feeds).wait();
    block_sizes.end();
    if (BlockSizes::is_active) {
      EXPECT_EQ(block_sizes.count(), 3 * fetched)
          << text << ": a launch must allocate only the host arrays of its results";
    }
    EXPECT_EQ(session.counters().peak_bytes, planned) << text;
    EXPECT_EQ(session.arena_bytes(), arenas) << text;
  }
}

}  // namespace
}  // namespace karez::tests
