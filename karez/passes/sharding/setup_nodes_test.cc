// Tests of nodes in the setup: nodes that depend only on constants cost nothing in launches if the setup computes them.
#include "karez/passes/sharding/setup_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "karez/ops/attention.h"
#include "karez/passes/sharding/explain.h"
#include "karez/passes/test_programs.h"
#include "karez/passes/test_random_graphs.h"

namespace karez::passes {
namespace {

using testing::table;

constexpr std::int64_t n = 4096;  // number of f32 elements; their bytes exceed the limit of constant folding

struct Program {
  Graph graph;
  Builder b;
  explicit Program(const char* mesh) : b(graph, table()) { graph.meshes = {Mesh::parse(mesh)}; }
  ValueId input(const char* name, Shape shape) { return build::input(b, name, {DType::f32, std::move(shape)}); }
  ValueId exp_of_iota() { return build::exp(b, build::iota(b, {DType::f32, {n}}, 0)); }
  void output(ValueId v) { graph.outputs.push_back({"y", v}); }
  Compilation compiled(std::vector<std::string> off = {}) {
    Compilation c = testing::compilation(graph);
    c.options.off = std::move(off);
    compile(c);
    return c;
  }
};

std::ptrdiff_t setup_node_count(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.setup; });
}
std::int64_t constant_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const plan::Block& block : plan.blocks)
    if (block.kind == plan::BlockKind::constant) bytes += block.bytes;
  return bytes;
}
// Returns the bytes of one element type that the collectives of one launch deliver.
std::int64_t collective_bytes(const Plan& plan, DType dtype) {
  std::int64_t bytes = 0;
  for (const plan::Actor& actor : plan.actors)
    if (actor.collective && actor.collective->out.view.dtype == dtype) bytes += actor.collective->out.view.bytes();
  return bytes;
}

TEST(SetupNodes, ValuesThatTheSetupComputesCostNothingInLaunches) {
  Program with_constant("data=2"), with_input("data=2");
  with_constant.output(build::add(with_constant.b, with_constant.input("x", {n}), with_constant.exp_of_iota()));
  with_input.output(build::add(with_input.b, with_input.input("x", {n}), with_input.input("wave", {n})));
  const Compilation in_setup = with_constant.compiled(), in_launches = with_constant.compiled({"hoist"}),
                    input_only = with_input.compiled();
  EXPECT_DOUBLE_EQ(in_setup.cost, input_only.cost);
  EXPECT_GT(in_launches.cost, input_only.cost);
  EXPECT_EQ(setup_node_count(in_setup.graph), 1) << print(in_setup.graph);
  EXPECT_EQ(setup_node_count(in_launches.graph), 0);
  EXPECT_EQ(print(parse_graph(print(in_setup.graph), table())), print(in_setup.graph));
  const auto sum = [](const Compilation& c) {
    Graph graph = c.graph;
    const ShardedGraph sharded = shard(with_setup_nodes(std::move(graph), *c.catalog), c.options.costs);
    const CostBreakdown breakdown = cost_breakdown(sharded.graph, sharded.operand_layouts, c.options.costs);
    return std::accumulate(breakdown.calls.begin(), breakdown.calls.end(), 0.0) +
           std::accumulate(breakdown.moves.begin(), breakdown.moves.end(), 0.0);
  };
  EXPECT_DOUBLE_EQ(sum(testing::compilation(with_constant.graph)), in_setup.cost);
}

TEST(SetupNodes, ExplanationsHaveTheCostOfThePlan) {
  Program p("data=2");
  p.output(build::add(p.b, p.input("x", {n}), p.exp_of_iota()));
  for (const bool off : {false, true}) {
    Compilation c = testing::compilation(p.graph);
    if (off) c.options.off = {"hoist"};
    const LayoutExplanation explanation = explain_layout(c, "x");
    EXPECT_DOUBLE_EQ(explanation.alternatives[0].seconds, p.compiled(c.options.off).cost);
  }
}

TEST(SetupNodes, ACausalMaskIsNotGatheredInLaunches) {
  for (const char* mesh : {"data=2", "data=2,model=2"}) {
    Program p(mesh);
    const std::int64_t t = 256;
    ValueId q = p.input("q", {4, 2, t, 8}), k = p.input("k", {4, 2, t, 8}), v = p.input("v", {4, 2, t, 8});
    p.output(build::attention(p.b, q, k, v, {.causal = true}));
    const Compilation c = p.compiled();
    EXPECT_GT(setup_node_count(c.graph), 0);
    EXPECT_EQ(collective_bytes(c.plan, DType::b8), 0) << mesh << "\n" << print(c.graph);
    EXPECT_EQ(collective_bytes(c.plan, DType::i64), 0) << mesh;
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls) EXPECT_NE(call.spec.out[0].dtype, DType::b8) << mesh;
  }
}

TEST(SetupNodes, AConstantThatAllReadersRequireInPartsIsComputedInParts) {
  Program p("data=2");
  const ValueId x = p.input("x", {n});
  p.graph.value(x).layout = Layout{S(0)};
  p.output(build::add(p.b, x, p.exp_of_iota()));
  p.graph.outputs[0].layout = Layout{S(0)};
  const Compilation c = p.compiled();
  EXPECT_EQ(constant_bytes(c.plan), 4 * n) << "each device must compute half\n" << print(c.graph);
  Program fixed("data=2");
  const ValueId exp_of_iota = fixed.exp_of_iota(), y = fixed.input("x", {n});
  fixed.graph.value(exp_of_iota).layout = Layout{B()};
  fixed.graph.value(y).layout = Layout{S(0)};
  fixed.output(build::add(fixed.b, y, exp_of_iota));
  fixed.graph.outputs[0].layout = Layout{S(0)};
  EXPECT_EQ(constant_bytes(fixed.compiled().plan), 2 * 4 * n) << "the user required Broadcast";
}

TEST(SetupNodes, ReadersOfAValueThatTheUserSplitArePartOfLaunches) {
  Program p("data=2");
  const ValueId exp_of_iota = p.exp_of_iota();
  p.graph.value(exp_of_iota).layout = Layout{S(0)};
  p.output(build::add(p.b, p.input("x", {n}), build::exp(p.b, exp_of_iota)));
  const Compilation c = p.compiled();
  EXPECT_EQ(setup_node_count(c.graph), 1) << print(c.graph);
}

// Reports a large workspace for matmuls.
class WorkspaceCatalog : public testing::AnyCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    auto choice = AnyCatalog::find(call);
    if (choice && call.op == "matmul") choice->workspace = 1 << 20;
    return choice;
  }
};

TEST(SetupNodes, TheCostIncludesNodesThatHoistLeavesInTheLaunch) {
  Program p("data=2");
  const ValueId a = build::exp(p.b, build::iota(p.b, {DType::f32, {64, 64}}, 0));
  p.output(build::add(p.b, p.input("x", {64, 64}), build::matmul(p.b, a, a)));
  WorkspaceCatalog large;
  Compilation c = testing::compilation(p.graph);
  c.catalog = &large;
  compile(c);
  for (const Node& node : c.graph.nodes) EXPECT_TRUE(node.op->name != "matmul" || !node.setup);
  EXPECT_GT(c.cost, p.compiled().cost);
}

TEST(SetupNodes, NoLaunchComputesMarkedNodes) {
  int setup_nodes = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    testing::Random random(seed);
    const Mesh mesh = Mesh::parse(testing::pick(random, 2) ? "a=2" : "a=2,b=2");
    Compilation c =
        testing::compilation(testing::random_graph(random, mesh, 5 + testing::pick(random, 8), false, true));
    c.options.fold_bytes = 0;
    try {
      compile(c);
    } catch (const Error&) { continue; }  // a fixed layout is not legal
    setup_nodes += static_cast<int>(setup_node_count(c.graph));
    for (const LocalSegment& segment : c.local.segments) {
      EXPECT_FALSE(segment.collective.valid() && c.graph.node(segment.collective).setup);
      for (const LocalCall& call : segment.calls)
        EXPECT_FALSE(c.graph.node(call.node).setup) << "seed " << seed << "\n" << print(c.graph);
    }
  }
  EXPECT_GT(setup_nodes, 200);
}

}  // namespace
}  // namespace karez::passes
