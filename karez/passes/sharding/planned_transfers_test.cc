// Tests of the transfers in plans of an MLP's training step, with a pinned cost table. A planner that replicates
// everything does not pass these tests.
#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/passes/compile.h"
#include "karez/passes/sharding/layout_rules.h"
#include "karez/passes/sharding/shard.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

CostTable pinned_costs() {
  return CostTable::parse(
      "link alpha=1e-6 beta=1e-10\n"
      "matmul_flops=1e10 conv_flops=1e10 memory_bytes=1e10 call=1e-6\n");
}

Compilation compile_step(const char* mesh, const std::vector<LayoutRule>& rules, bool batch_split, std::int64_t batch) {
  Graph graph = testing::mlp_step(Mesh::parse(mesh), {784, 256, 128, 10}, batch);
  apply_rules(graph, rules);
  if (batch_split)
    for (Node& node : graph.nodes)
      if (node.op->name == "input" && !graph.type(node.outputs[0]).shape.empty()) {
        Layout& layout = graph.value(node.outputs[0]).layout.emplace(broadcast_layout(graph.meshes[0]));
        layout[0] = S(0);
      }
  Compilation c = testing::compilation(std::move(graph));
  c.options.costs = pinned_costs();
  compile(c);
  return c;
}

const std::vector<LayoutRule> column_then_row = {
    {"**.fc1.*", {"model"}}, {"**.fc2.weight", {"", "model"}}, {"**.fc2.bias", {}}, {"**.fc3.*", {}}};

// Returns one line per transfer, such as "all_reduce data 1234 ...".
std::string transfers(const Compilation& c) {
  std::string out;
  for (const Transfer& t : c.plan.transfers) out += cat(t.kind, " ", t.axis, " ", t.bytes, " ", t.value, "\n");
  return out;
}

// Returns the cost of the same step with every value replicated on every device.
double replicated_cost(const char* mesh, std::int64_t batch) {
  Graph graph = testing::mlp_step(Mesh::parse(mesh), {784, 256, 128, 10}, batch);
  Choices choices;
  for (NodeId n : graph.nodes.ids()) choices.push_back(choices_of(graph, n, pinned_costs()));
  TransitionCostCache prices(pinned_costs());
  return assignment_cost(graph, choices, ById<NodeId, int>(choices.size(), 0), prices);
}

void expect_transfers(const char* mesh, const std::vector<LayoutRule>& rules, bool batch_split,
                      std::string_view expected, std::int64_t batch = 64,
                      base::SourceLocation at = base::SourceLocation::here()) {
  Compilation c = compile_step(mesh, rules, batch_split, batch);
  EXPECT_TRUE(c.optimal);
  EXPECT_LT(c.cost, 0.75 * replicated_cost(mesh, batch)) << c.cost;
  EXPECT_TRUE(golden("\n" + transfers(c), expected, at));
}

TEST(PlannedTransfers, RulesMakeTheStepDataParallel) {
  expect_transfers("data=4", {{"fc*", {}}}, true, R"(
all_to_all data 150528 input at mlp.cc:1 f32[64@data, 784] -> f32[64, 784@data]
all_to_all data 49152 relu at mlp.cc:2 (fc1) f32[64@data, 256] -> f32[64, 256@data]
all_to_all data 24576 relu at mlp.cc:3 (fc2) f32[64@data, 128] -> f32[64, 128@data]
all_gather data 7680 add at mlp.cc:4 (grad) f32[64@data, 10] -> f32[64, 10;]
all_gather data 98304 relu_grad at mlp.cc:3 (fc2.grad) f32[64@data, 128] -> f32[64, 128;]
all_gather data 196608 relu_grad at mlp.cc:2 (fc1.grad) f32[64@data, 256] -> f32[64, 256;]
all_gather data 768 sub at mlp.cc:4 f32[64@data] -> f32[64;]
all_gather data 2408448 sgd at mlp.cc:4 f32[256, 784@data] -> f32[256, 784;]
all_gather data 393216 sgd at mlp.cc:4 f32[128, 256@data] -> f32[128, 256;]
all_gather data 15360 sgd at mlp.cc:4 f32[10, 128@data] -> f32[10, 128;]
all_gather data 3072 sgd at mlp.cc:4 f32[256@data] -> f32[256;]
)");
}

TEST(PlannedTransfers, RulesMakeAStepWithALargeBatchDataParallel) {
  expect_transfers("data=4", {{"fc*", {}}}, true, R"(
all_reduce data 24 reduce_sum at mlp.cc:4 f32[; sum@data] -> f32[;]
reduce_scatter data 120 reduce_sum at mlp.cc:4 (fc3.grad) f32[10; sum@data] -> f32[10@data]
reduce_scatter data 15360 matmul at mlp.cc:4 (fc3.grad) f32[10, 128; sum@data] -> f32[10, 128@data]
reduce_scatter data 1536 reduce_sum at mlp.cc:3 (fc2.grad) f32[128; sum@data] -> f32[128@data]
reduce_scatter data 393216 matmul at mlp.cc:3 (fc2.grad) f32[128, 256; sum@data] -> f32[128@data, 256]
reduce_scatter data 3072 reduce_sum at mlp.cc:2 (fc1.grad) f32[256; sum@data] -> f32[256@data]
reduce_scatter data 2408448 matmul at mlp.cc:2 (fc1.grad) f32[256, 784; sum@data] -> f32[256@data, 784]
all_gather data 2408448 sgd at mlp.cc:4 f32[256@data, 784] -> f32[256, 784;]
all_gather data 3072 sgd at mlp.cc:4 f32[256@data] -> f32[256;]
all_gather data 393216 sgd at mlp.cc:4 f32[128@data, 256] -> f32[128, 256;]
all_gather data 1536 sgd at mlp.cc:4 f32[128@data] -> f32[128;]
all_gather data 15360 sgd at mlp.cc:4 f32[10, 128@data] -> f32[10, 128;]
all_gather data 120 sgd at mlp.cc:4 f32[10@data] -> f32[10;]
)",
                   16384);
}

TEST(PlannedTransfers, RulesSplitLayersByColumnsThenByRows) {
  expect_transfers("model=4", column_then_row, false, R"(
reduce_scatter model 98304 matmul at mlp.cc:3 (fc2) f32[64, 128; sum@model] -> f32[64@model, 128]
all_gather model 7680 sub at mlp.cc:4 f32[64@model, 10] -> f32[64, 10;]
all_reduce model 30720 matmul at mlp.cc:4 (fc3.grad) f32[10, 128; sum@model] -> f32[10, 128;]
all_gather model 98304 relu_grad at mlp.cc:3 (fc2.grad) f32[64@model, 128] -> f32[64, 128;]
)");
}

TEST(PlannedTransfers, RulesSplitDataAndModel) {
  expect_transfers("data=2,model=2", column_then_row, true, R"(
all_to_all data 200704 input at mlp.cc:1 f32[64@data, 784] -> f32[64, 784@data]
all_gather data 65536 relu at mlp.cc:2 (fc1) f32[64@data, 256@model] -> f32[64, 256@model]
reduce_scatter model 32768 add at mlp.cc:3 (fc2) f32[64@data, 128; sum@model] -> f32[64@data, 128@model]
all_reduce model 5120 add at mlp.cc:4 (fc3) f32[64@data, 10; sum@model] -> f32[64@data, 10]
all_reduce data 16 reduce_sum at mlp.cc:4 f32[; sum@data] -> f32[;]
all_reduce data 160 reduce_sum at mlp.cc:4 (fc3.grad) f32[10; sum@data] -> f32[10;]
all_reduce data 10240 matmul at mlp.cc:4 (fc3.grad) f32[10, 128@model; sum@data] -> f32[10, 128@model]
all_gather model 10240 box at mlp.cc:4 (fc3.grad) f32[10, 128@model] -> f32[10, 128;]
all_gather model 32768 relu_grad at mlp.cc:3 (fc2.grad) f32[64@data, 128@model] -> f32[64@data, 128]
all_to_all data 32768 box at mlp.cc:3 (fc2.grad) f32[64@data, 128] -> f32[64, 128@data]
all_gather data 1024 reduce_sum at mlp.cc:3 (fc2.grad) f32[128@data] -> f32[128;]
all_gather data 65536 relu_grad at mlp.cc:2 (fc1.grad) f32[64@data, 256@model] -> f32[64, 256@model]
all_reduce data 2048 reduce_sum at mlp.cc:2 (fc1.grad) f32[256@model; sum@data] -> f32[256@model]
all_gather data 802816 sgd at mlp.cc:4 f32[256@model, 784@data] -> f32[256@model, 784]
all_gather data 802816 sgd at mlp.cc:4 f32[256@model, 784@data] -> f32[256@model, 784]
all_gather data 131072 sgd at mlp.cc:4 f32[128@data, 256@model] -> f32[128, 256@model]
all_gather data 131072 sgd at mlp.cc:4 f32[128@data, 256@model] -> f32[128, 256@model]
)");
}

TEST(PlannedTransfers, WithoutRulesThePlannerChoosesTransfersOnFourDataDevices) {
  expect_transfers("data=4", {}, false, R"(
reduce_scatter data 98304 matmul at mlp.cc:3 (fc2) f32[64, 128; sum@data] -> f32[64, 128@data]
reduce_scatter data 7680 add at mlp.cc:4 (fc3) f32[64, 10; sum@data] -> f32[64@data, 10]
all_gather data 7680 sub at mlp.cc:4 f32[64@data, 10] -> f32[64, 10;]
all_gather data 98304 relu_grad at mlp.cc:3 (fc2.grad) f32[64, 128@data] -> f32[64, 128;]
)");
}

TEST(PlannedTransfers, WithoutRulesThePlannerChoosesTransfersOnFourModelDevices) {
  expect_transfers("model=4", {}, false, R"(
reduce_scatter model 98304 matmul at mlp.cc:3 (fc2) f32[64, 128; sum@model] -> f32[64, 128@model]
reduce_scatter model 7680 add at mlp.cc:4 (fc3) f32[64, 10; sum@model] -> f32[64@model, 10]
all_gather model 7680 sub at mlp.cc:4 f32[64@model, 10] -> f32[64, 10;]
all_gather model 98304 relu_grad at mlp.cc:3 (fc2.grad) f32[64, 128@model] -> f32[64, 128;]
)");
}

TEST(PlannedTransfers, WithoutRulesThePlannerChoosesTransfersOnTwoByTwoDevices) {
  expect_transfers("data=2,model=2", {}, false, R"(
all_gather model 65536 relu at mlp.cc:2 (fc1) f32[64, 256@data@model] -> f32[64, 256@data]
reduce_scatter data 32768 add at mlp.cc:3 (fc2) f32[64, 128@model; sum@data] -> f32[64@data, 128@model]
all_reduce model 5120 add at mlp.cc:4 (fc3) f32[64@data, 10; sum@model] -> f32[64@data, 10]
all_reduce data 16 reduce_sum at mlp.cc:4 f32[; sum@data] -> f32[;]
all_reduce data 80 reduce_sum at mlp.cc:4 (fc3.grad) f32[10@model; sum@data] -> f32[10@model]
all_reduce data 10240 matmul at mlp.cc:4 (fc3.grad) f32[10, 128@model; sum@data] -> f32[10, 128@model]
all_gather data 32768 relu_grad at mlp.cc:3 (fc2.grad) f32[64@data, 128@model] -> f32[64, 128@model]
reduce_scatter model 65536 matmul at mlp.cc:3 (fc2.grad) f32[64, 256@data; sum@model] -> f32[64, 256@data@model]
)");
}

}  // namespace
}  // namespace karez::passes
