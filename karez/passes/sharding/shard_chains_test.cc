// Tests of chains: for a value with many consumers, they have the true cost or bound it from both sides.
#include "karez/passes/sharding/shard_chains.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "karez/passes/sharding/test_choice_cost.h"
#include "karez/passes/sharding/test_shard.h"

namespace karez::passes {
namespace {

using testing::compute_seconds;
using Program = testing::ShardProgram;

// One value has 12 consumers, each of which may require it in any of 16 layouts, which gives 16^13 cells. Most of these
// layouts can be changed into others at no cost.
TEST(ShardChains, AValueWithTwelveConsumersIsPlannedWithAChain) {
  Program p("data=2,model=2");
  ValueId h = build::matmul(p.b, p.input("x", {256, 512}), p.weight("w", {512, 512}));
  for (int k = 0; k < 12; ++k)
    p.graph.outputs.push_back({cat("y", k), build::matmul(p.b, h, p.weight(cat("w", k), {512, 128}))});
  Compilation c = p.planned();
  Choices choices;
  for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, c.options.costs));
  TransitionCostCache prices(c.options.costs);
  EXPECT_EQ(layout_problem(p.graph, choices, prices, ChainOverflow::free).inexact_values, 0);
  EXPECT_LE(c.cost_bound, c.cost);
  EXPECT_TRUE(c.optimal);
  EXPECT_LT(c.cost, assignment_cost(p.graph, choices, ById<NodeId, int>(choices.size(), 0), prices));
}

// Adds a product with several consumers.
void add_product_with_consumers(Program& p, int count, const Shape& batch = {}) {
  auto shape = [&](std::int64_t rows, std::int64_t columns) {
    Shape result = batch;
    result.insert(result.end(), {rows, columns});
    return result;
  };
  ValueId h = build::matmul(p.b, p.input("x", shape(256, 512)), p.weight("w", shape(512, 512)));
  for (int k = 0; k < count; ++k)
    p.graph.outputs.push_back({cat("y", k), build::matmul(p.b, h, p.weight(cat("w", k), shape(512, 128)))});
}

// Returns the program in which every node runs in each of `times` micro-batches.
Graph repeated(Graph graph, std::int64_t times) {
  for (NodeId n : graph.nodes.ids()) graph.nodes[n].acts = static_cast<int>(times);
  return graph;
}

// Returns a random choice for every node such that no masked sum meets a product. Other choices have no finite cost.
ById<NodeId, int> random_sound_choice(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                                      std::mt19937_64& random) {
  for (int tries = 0;; ++tries) {
    require(tries < 100000, "none of ", tries, " random choices was sound");
    ById<NodeId, int> chosen(choices.size(), 0);
    for (NodeId n : choices.ids()) chosen[n] = static_cast<int>(random() % choices[n].size());
    if (std::isfinite(assignment_cost(graph, choices, chosen, prices))) return chosen;
  }
}

// The cost of an assignment and the tables and chains of the search include every act of a node.
TEST(ShardChains, EveryActIsCounted) {
  struct Case {
    const char* mesh;
    int consumers;
    Shape batch;
  };
  for (const Case& test_case : {Case{"model=4", 8, {}}, Case{"a=2,b=2,c=2", 3, {8}}, Case{"a=2,b=2", 2, {}}}) {
    Program p(test_case.mesh);
    add_product_with_consumers(p, test_case.consumers, test_case.batch);
    const Graph repeated_graph = repeated(p.graph, 5);
    const CostTable costs;
    TransitionCostCache prices(costs);
    Choices choices, repeated_choices;
    for (NodeId n : p.graph.nodes.ids())
      choices.push_back(choices_of(p.graph, n, costs)),
          repeated_choices.push_back(choices_of(repeated_graph, n, costs));
    std::mt19937_64 random(7);
    for (ChainOverflow overflow : {ChainOverflow::free, ChainOverflow::forbidden}) {
      const LayoutProblem single_problem = layout_problem(p.graph, choices, prices, overflow),
                          repeated_problem = layout_problem(repeated_graph, repeated_choices, prices, overflow);
      for (int round = 0; round < 10; ++round) {
        const auto chosen = random_sound_choice(p.graph, choices, prices, random);
        const double assignment_seconds = assignment_cost(p.graph, choices, chosen, prices),
                     table_cost = cost_of_choices(single_problem, choices, chosen);
        EXPECT_NEAR(assignment_cost(repeated_graph, repeated_choices, chosen, prices), 5 * assignment_seconds,
                    1e-9 * assignment_seconds)
            << test_case.mesh;
        if (std::isfinite(table_cost)) {
          EXPECT_NEAR(cost_of_choices(repeated_problem, repeated_choices, chosen), 5 * table_cost, 1e-9 * table_cost)
              << test_case.mesh;
        }
      }
    }
  }
}

// A chain of consumers replaces a table that would be too large. With every node's choice fixed, it has the true cost.
TEST(ShardChains, AChainHasTheTrueCostOfEveryChoice) {
  Program p("model=4");
  add_product_with_consumers(p, 8);
  const CostTable costs;
  Choices choices;
  for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, costs));
  TransitionCostCache prices(costs);
  const LayoutProblem problem = layout_problem(p.graph, choices, prices, ChainOverflow::free);
  ASSERT_EQ(problem.inexact_values, 0);
  ASSERT_GT(problem.sum.domain.size(), p.graph.nodes.size()) << "expected a chain, which has additional variables";
  std::mt19937_64 random(7);
  for (int round = 0; round < 30; ++round) {
    const auto chosen = random_sound_choice(p.graph, choices, prices, random);
    const double true_cost = assignment_cost(p.graph, choices, chosen, prices);
    EXPECT_NEAR(cost_of_choices(problem, choices, chosen), true_cost, 1e-9 * true_cost) << "round " << round;
  }
}

// Three consumers of a batched product on three axes are too many for a chain of layouts. The costs of single axes must
// never be above the true cost, and the costs with overflow forbidden must never be below it.
TEST(ShardChains, TheSumOfSingleAxesNeverExceedsTheTrueCost) {
  Program p("a=2,b=2,c=2");
  add_product_with_consumers(p, 3, {8});
  for (const double alpha : {0.0, 1.0}) {
    CostTable costs;
    costs.link = {alpha, 1e-9};
    Choices choices;
    for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, costs));
    TransitionCostCache prices(costs);
    const LayoutProblem lower_costs = layout_problem(p.graph, choices, prices, ChainOverflow::free),
                        upper_costs = layout_problem(p.graph, choices, prices, ChainOverflow::forbidden);
    ASSERT_EQ(lower_costs.inexact_values, 1);
    std::mt19937_64 random(7);
    int looser = 0;
    for (int round = 0; round < 30; ++round) {
      const auto chosen = random_sound_choice(p.graph, choices, prices, random);
      const double true_cost = assignment_cost(p.graph, choices, chosen, prices),
                   table_cost = cost_of_choices(lower_costs, choices, chosen);
      EXPECT_LE(table_cost, true_cost * (1 + 1e-9)) << "round " << round;
      EXPECT_GE(table_cost, 0.3 * true_cost) << "round " << round;
      EXPECT_GE(cost_of_choices(upper_costs, choices, chosen), true_cost * (1 - 1e-9)) << "round " << round;
      looser += table_cost < true_cost * (1 - 1e-9);
    }
    EXPECT_GT(looser, 0);
  }
}

// If only messages on one axis cost anything, this axis costs as much as all axes together, except when other axes
// restrict its moves.
TEST(ShardChains, ASingleAxisTracksAllRequiredEntries) {
  Program p("a=2,b=2,c=2");
  add_product_with_consumers(p, 3, {8});
  CostTable costs;
  costs.link = {0, 0};
  costs.axis_links = {{"c", {1, 0}}};
  costs.memory_bytes = 1e300, costs.matmul_flops = 1e300, costs.call = 0;
  Choices choices;
  for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, costs));
  TransitionCostCache prices(costs);
  const LayoutProblem lower_costs = layout_problem(p.graph, choices, prices, ChainOverflow::free);
  ASSERT_EQ(lower_costs.inexact_values, 1);
  std::mt19937_64 random(7);
  int equal = 0;
  for (int round = 0; round < 40; ++round) {
    ById<NodeId, int> chosen(choices.size(), 0);
    for (NodeId n : choices.ids()) chosen[n] = static_cast<int>(random() % choices[n].size());
    const double true_cost = assignment_cost(p.graph, choices, chosen, prices);
    const double table_cost = cost_of_choices(lower_costs, choices, chosen);
    EXPECT_LE(table_cost, true_cost * (1 + 1e-9)) << "round " << round;
    equal += table_cost >= true_cost * (1 - 1e-9);
  }
  EXPECT_GE(equal, 36);
}

// With a fixed layout and thirteen consumers of the value, each consumer has a separate table.
TEST(ShardChains, AnOverflowingChainOfAFixedValueIsBoundedFromBothSides) {
  Program p("a=2,b=2");
  ValueId h = build::matmul(p.b, p.input("x", {256, 512}), p.weight("w", {512, 512}));
  p.fix(h, {S(0), S(1)});
  p.graph.outputs.push_back({"h", h});
  for (int k = 0; k < 13; ++k)
    p.graph.outputs.push_back({cat("y", k), build::matmul(p.b, h, p.weight(cat("w", k), {512, 128}))});
  const auto all_uses = uses_of(p.graph);
  const auto& uses = all_uses[h];
  for (const double alpha : {0.0, 1.0}) {
    CostTable costs;
    costs.link = {alpha, 1e-9};
    Choices choices;
    for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, costs));
    TransitionCostCache prices(costs);
    const LayoutProblem lower_costs = layout_problem(p.graph, choices, prices, ChainOverflow::free),
                        upper_costs = layout_problem(p.graph, choices, prices, ChainOverflow::forbidden);
    ASSERT_EQ(lower_costs.inexact_values, 1);
    std::mt19937_64 random(7);
    for (int round = 0; round < 20; ++round) {
      ById<NodeId, int> chosen(choices.size(), 0);
      for (NodeId n : choices.ids()) chosen[n] = static_cast<int>(random() % choices[n].size());
      for (const Use& use : uses)  // in round 0 all consumers require the fixed layout, and only the output costs
        for (std::size_t c = 0; round == 0 && c < choices[use.node].size(); ++c)
          if (choices[use.node][c].in(0) == Layout{S(0), S(1)}) chosen[use.node] = static_cast<int>(c);
      const double true_cost = assignment_cost(p.graph, choices, chosen, prices);
      EXPECT_LE(cost_of_choices(lower_costs, choices, chosen), true_cost * (1 + 1e-9)) << "round " << round;
      EXPECT_GE(cost_of_choices(upper_costs, choices, chosen), true_cost * (1 - 1e-9)) << "round " << round;
    }
  }
}

// Weights are too expensive to move, and each is stored so that it requires a different layout of the value. Together
// they require more layouts than a chain can track, until the bound has excluded most of them.
TEST(ShardChains, MoreLayoutsThanAChainTracksHaveTheirTrueCost) {
  Program p("data=2,model=2,more=2");
  ValueId h = build::matmul(p.b, p.input("x", {256, 512}), p.weight("w", {512, 512}));
  const Sbp entries[] = {S(0), S(1), B()};
  for (int k = 0; k < 5; ++k) {
    ValueId w = p.weight(cat("w", k), {512, 4096});
    p.graph.variables.back().stored = {entries[k % 3], entries[(k + k / 3) % 3], entries[(2 * k + 1) % 3]};
    p.graph.outputs.push_back({cat("y", k), build::matmul(p.b, h, w)});
  }
  Compilation c = p.planned();
  Choices choices;
  for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, c.options.costs));
  TransitionCostCache prices(c.options.costs);
  EXPECT_EQ(layout_problem(p.graph, choices, prices, ChainOverflow::free).inexact_values, 1);
  EXPECT_TRUE(c.optimal) << c.shard_report;
  EXPECT_EQ(c.cost_bound, c.cost);
  double transfers = 0;  // seconds of the boxes
  auto uses = uses_of(c.graph);
  for (ValueId v : c.graph.values.ids()) {
    std::vector<Layout> targets;
    for (const Use& use : uses[v])
      targets.push_back(c.operand_layouts[use.node][static_cast<std::size_t>(use.operand)]);
    for (const Output& output : c.graph.outputs)
      if (output.value == v) targets.push_back({B(), B(), B()});
    transfers +=
        transition_tree(c.graph.values[v].type, c.graph.meshes[0], *c.graph.values[v].layout, targets, c.options.costs)
            .seconds;
  }
  EXPECT_NEAR(c.cost, transfers + compute_seconds(c), 1e-9 * c.cost);
}

}  // namespace
}  // namespace karez::passes
