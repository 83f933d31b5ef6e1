// The planner's known traps, plans that it finds unaided, layouts fixed by the user, and values with many consumers.
#include "karez/passes/sharding/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "karez/passes/compile.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/shard_copies.h"
#include "karez/passes/sharding/shard_programs.h"
#include "karez/passes/sharding/test_choice_cost.h"

namespace karez::passes {
namespace {

using testing::parameter;

struct Program {
  Graph graph;
  Builder b;
  explicit Program(const char* mesh) : b(graph, testing::table()) {
    graph.meshes = {Mesh::parse(mesh)};
    b.where = "net.cc:7";
  }
  Program(const Program&) = delete;
  ValueId input(const char* name, const Shape& shape) { return build::input(b, name, {DType::f32, shape}); }
  ValueId weight(const std::string& name, const Shape& shape) { return parameter(b, name, {DType::f32, shape}); }
  void fix(ValueId value, const Layout& layout) { graph.value(value).layout = layout; }
  Compilation planned(const CostTable& costs = {}) const {
    Compilation c = testing::compilation(graph);
    c.options.costs = costs;
    run_passes(c, {"shard"});
    return c;
  }
};

std::vector<std::string> moves_of(Compilation c) {
  run_passes(c, {"box"});
  std::vector<std::string> moves;
  for (const Node& node : c.graph.nodes)
    if (node.op->name == "box") moves.push_back(node.attrs.text("move"));
  return moves;
}

double compute_seconds(const Compilation& c) {
  double sum = 0;
  for (NodeId n : c.graph.nodes.ids())
    for (const NodeChoice& choice : choices_of(c.graph, n, c.options.costs)) {
      bool chosen = true;  // all outputs are fixed by now; operands distinguish choices with equal results
      for (std::size_t i = 0; i < c.wanted[n].size(); ++i) chosen = chosen && choice.in(i) == c.wanted[n][i];
      if (chosen) sum += choice.seconds;
    }
  return sum;
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

TEST(Shard, TrapOneWithoutComputeTimeReplicateAllWouldWin) {
  Graph graph = testing::mlp_step(Mesh::parse("data=4"), {784, 256, 128, 10}, 1024);
  auto replicated = [&](const CostTable& costs) {
    Choices choices;
    for (NodeId n : graph.nodes.ids()) choices.push_back(choices_of(graph, n, costs));
    for (const auto& list : choices)
      for (Sbp entry : list[0].out(0)) EXPECT_TRUE(entry.is_broadcast());  // the first choice is all Broadcast
    TransitionCostCache prices(costs);
    return assignment_cost(graph, choices, ById<NodeId, int>(graph.nodes.size(), 0), prices);
  };
  CostTable blind;
  blind.matmul_flops = blind.memory_bytes = 1e300;
  blind.call = 0;
  EXPECT_LT(replicated(blind), 1e-200);  // nothing can be cheaper

  CostTable costs;
  Compilation c = testing::compilation(graph);
  c.options.costs = costs;
  run_passes(c, {"shard"});
  EXPECT_LT(c.cost, 0.5 * replicated(costs));
  for (NodeId n : c.graph.nodes.ids()) {
    if (c.graph.node(n).op->name != "matmul") continue;
    bool split =
        std::any_of(c.wanted[n].begin(), c.wanted[n].end(), [](const Layout& layout) { return layout[0].is_split(); });
    EXPECT_TRUE(split) << describe(c.graph, n);
  }
}

TEST(Shard, TrapTwoTheTransferFromUpdatedToStoredIsCharged) {
  auto planned = [](bool stored) {
    Program p("data=4");
    ValueId w = p.weight("w", {1024, 256}), m = p.weight("m", {1024, 256});
    ValueId lr = p.input("lr", {}), x = p.input("x", {4096, 1024}), dy = p.input("dy", {4096, 256});
    p.fix(w, {B()});
    p.fix(m, {S(0)});
    p.fix(x, {S(0)});
    p.fix(dy, {S(0)});
    auto updated = build::sgd(p.b, w, m, build::matmul(p.b, x, dy, {.transpose_a = true}), lr, {.momentum = 0.9});
    p.fix(updated.w, {S(0)});
    if (stored) p.graph.variables[0].updated = updated.w;
    return p.planned();
  };
  Compilation with = planned(true), without = planned(false);
  TransitionStep gather{0, Move::all_gather, {S(0)}, {B()}};
  EXPECT_NEAR(with.cost - without.cost, seconds({DType::f32, {1024, 256}}, with.graph.meshes[0], gather, CostTable{}),
              1e-12);
  auto moves = moves_of(with);
  EXPECT_EQ(std::count(moves.begin(), moves.end(), "reduce_scatter"), 1);
  EXPECT_EQ(std::count(moves.begin(), moves.end(), "all_gather"), 1);
}

TEST(Shard, TrapThreePartialRequiredAsSplitAndAsBroadcastIsOneAllReduce) {
  Program p("model=4");
  ValueId a = p.input("a", {512, 1024}), w = p.weight("w", {1024, 512});
  p.fix(w, {S(0)});
  ValueId y = build::matmul(p.b, a, w);
  p.fix(y, {P()});
  p.fix(build::relu(p.b, y), {B()});
  p.fix(build::tanh(p.b, y), {S(0)});
  Compilation c = p.planned();
  TensorType type{DType::f32, {512, 512}};
  const Mesh& mesh = c.graph.meshes[0];
  double all_reduce = seconds(type, mesh, {0, Move::all_reduce, {P()}, {B()}}, CostTable{});
  double by_consumer = all_reduce + seconds(type, mesh, {0, Move::reduce_scatter, {P()}, {S(0)}}, CostTable{});
  EXPECT_NEAR(c.cost - compute_seconds(c), all_reduce, 1e-12);
  EXPECT_GT(by_consumer, all_reduce * 1.4);
  EXPECT_EQ(moves_of(c), (std::vector<std::string>{"slice", "all_reduce", "slice"}));  // of a, of y, of y
}

TEST(Shard, ATwoLayerBlockBecomesColumnThenRow) {
  Program p("model=4");
  ValueId x = p.input("x", {64, 512}), w1 = p.weight("w1", {512, 2048}), w2 = p.weight("w2", {2048, 512});
  ValueId first = build::matmul(p.b, x, w1);
  ValueId y = build::matmul(p.b, build::relu(p.b, first), w2);
  p.graph.outputs.push_back({"y", y});
  CostTable costs;
  costs.matmul_flops = 1e12;  // weights are large compared with the batch: reading them takes most of the time
  Compilation c = p.planned(costs);
  EXPECT_TRUE(c.optimal);
  auto weights = [&](ValueId of) { return print(c.wanted[c.graph.value(of).producer][1]); };
  EXPECT_EQ(weights(first), "(S(1))");
  EXPECT_EQ(weights(y), "(S(0))");
  EXPECT_EQ(print(*c.graph.value(y).layout), "(P(sum))");
  auto moves = moves_of(c);
  std::erase(moves, "slice");  // no variable is updated: storing a weight whole and slicing it costs the same
  EXPECT_EQ(moves, std::vector<std::string>{"all_reduce"});
}

TEST(Shard, ATrainingStepOfACnnOnTwoAxesIsPlannedExactly) {
  Compilation c = testing::compilation(testing::cnn_step(Mesh::parse("data=2,model=2"), 64));
  run_passes(c, {"shard"});
  EXPECT_TRUE(c.optimal) << c.shard_report;
  for (const Node& node : c.graph.nodes) {
    if (node.op->name != "conv2d") continue;
    const Layout& layout = *c.graph.value(node.outputs[0]).layout;  // all four devices share the expensive ops
    EXPECT_TRUE(layout[0].is_split() && layout[1].is_split()) << print(layout);
  }
}

// A transfer in each of four micro-batches is counted four times, in the search and in the cost of its result.
TEST(Shard, TransfersInEveryMicroBatchAreCountedEachTime) {
  auto planned = [](int microbatches) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {784, 256, 128, 10}, 64));
    c.options.microbatches = microbatches;
    compile(c);
    EXPECT_TRUE(c.optimal) << microbatches << " micro-batches: " << c.cost << ", at least " << c.cost_bound;
    EXPECT_NEAR(c.cost_bound, c.cost, 1e-9 * c.cost);
    return c.cost;
  };
  EXPECT_GT(planned(4), planned(1));
}

TEST(Shard, AFixedLayoutIsHonoured) {
  Program p("data=4");
  ValueId h = build::relu(p.b, p.input("x", {64, 512}));
  p.fix(h, {S(1)});
  p.graph.outputs.push_back({"h", h});
  Compilation c = p.planned();
  EXPECT_EQ(print(*c.graph.value(h).layout), "(S(1))");
  EXPECT_EQ(moves_of(c), (std::vector<std::string>{"slice", "all_gather"}));
}

TEST(Shard, ALayoutThatAnOpCannotProduceIsRefused) {
  Program p("data=4");
  p.b.path = "fc1";
  ValueId h = build::relu(p.b, p.input("x", {64, 512}));
  p.fix(h, {P()});
  EXPECT_EQ(error_of([&] { p.planned(); }),
            "relu at net.cc:7 (fc1) cannot produce f32[64, 512] in the layout (P(sum)) on mesh(data=4); it can produce "
            "(S(0)), "
            "(S(1)), (B)");
  Program two("data=2,model=2");
  ValueId x = two.input("x", {64, 1});
  two.fix(x, {B(), S(1)});
  EXPECT_EQ(
      error_of([&] { two.planned(); }),
      "input at net.cc:7 cannot produce f32[64, 1] in the layout (B, S(1)) on mesh(data=2, model=2); it can produce "
      "(S(0), S(0)), (S(0), B), (B, S(0)), "
      "(B, B)");
}

// One value with 12 consumers, each of which may require it in any of 16 layouts: 16^13 cells. Most of these layouts
// become others at no cost.
TEST(Shard, AValueWithTwelveConsumersIsPlannedInAChain) {
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

// A product with several consumers.
void add_consumers_of_one(Program& p, int count, const Shape& batch = {}) {
  auto shape = [&](std::int64_t rows, std::int64_t columns) {
    Shape made = batch;
    made.insert(made.end(), {rows, columns});
    return made;
  };
  ValueId h = build::matmul(p.b, p.input("x", shape(256, 512)), p.weight("w", shape(512, 512)));
  for (int k = 0; k < count; ++k)
    p.graph.outputs.push_back({cat("y", k), build::matmul(p.b, h, p.weight(cat("w", k), shape(512, 128)))});
}

// The program with every node run in each of `times` micro-batches.
Graph repeated(Graph graph, std::int64_t times) {
  for (NodeId n : graph.nodes.ids()) graph.nodes[n].acts = static_cast<int>(times);
  return graph;
}

// A random choice for every node that lets no masked sum meet a product; others have no finite cost.
ById<NodeId, int> any_sound(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                            std::mt19937_64& random) {
  for (int tries = 0;; ++tries) {
    require(tries < 100000, "no sound choice");
    ById<NodeId, int> chosen(choices.size(), 0);
    for (NodeId n : choices.ids()) chosen[n] = static_cast<int>(random() % choices[n].size());
    if (std::isfinite(assignment_cost(graph, choices, chosen, prices))) return chosen;
  }
}

// Every act of a node is counted: in the cost of an assignment, and in the tables and chains of the search.
TEST(Shard, EveryActIsCounted) {
  struct Case {
    const char* mesh;
    int consumers;
    Shape batch;
  };
  for (const Case& one : {Case{"model=4", 8, {}}, Case{"a=2,b=2,c=2", 3, {8}}, Case{"a=2,b=2", 2, {}}}) {
    Program p(one.mesh);
    add_consumers_of_one(p, one.consumers, one.batch);
    const Graph often = repeated(p.graph, 5);
    const CostTable costs;
    TransitionCostCache prices(costs);
    Choices choices, more;
    for (NodeId n : p.graph.nodes.ids())
      choices.push_back(choices_of(p.graph, n, costs)), more.push_back(choices_of(often, n, costs));
    std::mt19937_64 random(7);
    for (ChainOverflow overflow : {ChainOverflow::free, ChainOverflow::forbidden}) {
      const LayoutProblem once = layout_problem(p.graph, choices, prices, overflow),
                          five = layout_problem(often, more, prices, overflow);
      for (int round = 0; round < 10; ++round) {
        const auto chosen = any_sound(p.graph, choices, prices, random);
        const double all = assignment_cost(p.graph, choices, chosen, prices),
                     least = cost_of_choices(once, choices, chosen);
        EXPECT_NEAR(assignment_cost(often, more, chosen, prices), 5 * all, 1e-9 * all) << one.mesh;
        if (std::isfinite(least)) {
          EXPECT_NEAR(cost_of_choices(five, more, chosen), 5 * least, 1e-9 * least) << one.mesh;
        }
      }
    }
  }
}

// A chain of consumers replaces a table that would be too large: with every node's choice fixed it has the true cost.
TEST(Shard, AChainHasTheTrueCostOfEveryChoice) {
  Program p("model=4");
  add_consumers_of_one(p, 8);
  const CostTable costs;
  Choices choices;
  for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, costs));
  TransitionCostCache prices(costs);
  const LayoutProblem problem = layout_problem(p.graph, choices, prices, ChainOverflow::free);
  ASSERT_EQ(problem.inexact_values, 0);
  ASSERT_GT(problem.sum.domain.size(), p.graph.nodes.size()) << "no chain";
  std::mt19937_64 random(7);
  for (int round = 0; round < 30; ++round) {
    const auto chosen = any_sound(p.graph, choices, prices, random);
    const double price_of_all = assignment_cost(p.graph, choices, chosen, prices);
    EXPECT_NEAR(cost_of_choices(problem, choices, chosen), price_of_all, 1e-9 * price_of_all) << "round " << round;
  }
}

// Three consumers of a batched product on three axes are too many for a chain of layouts: the costs of single axes are
// never above the true cost, and the costs with overflow forbidden are never below it.
TEST(Shard, SingleAxesNeverCostMoreThanAllTogether) {
  Program p("a=2,b=2,c=2");
  add_consumers_of_one(p, 3, {8});
  for (const double alpha : {0.0, 1.0}) {
    CostTable costs;
    costs.link = {alpha, 1e-9};
    Choices choices;
    for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, costs));
    TransitionCostCache prices(costs);
    const LayoutProblem free = layout_problem(p.graph, choices, prices, ChainOverflow::free),
                        dear = layout_problem(p.graph, choices, prices, ChainOverflow::forbidden);
    ASSERT_EQ(free.inexact_values, 1);
    std::mt19937_64 random(7);
    int apart = 0;
    for (int round = 0; round < 30; ++round) {
      const auto chosen = any_sound(p.graph, choices, prices, random);
      const double price_of_all = assignment_cost(p.graph, choices, chosen, prices),
                   least = cost_of_choices(free, choices, chosen);
      EXPECT_LE(least, price_of_all * (1 + 1e-9)) << "round " << round;
      EXPECT_GE(least, 0.3 * price_of_all) << "round " << round;
      EXPECT_GE(cost_of_choices(dear, choices, chosen), price_of_all * (1 - 1e-9)) << "round " << round;
      apart += least < price_of_all * (1 - 1e-9);
    }
    EXPECT_GT(apart, 0);
  }
}

// If only messages on one axis cost anything, this axis alone costs as much as all axes together, except when other
// axes restrict its moves.
TEST(Shard, ASingleAxisTracksAllRequiredEntries) {
  Program p("a=2,b=2,c=2");
  add_consumers_of_one(p, 3, {8});
  CostTable costs;
  costs.link = {0, 0};
  costs.axis_links = {{"c", {1, 0}}};
  costs.memory_bytes = 1e300, costs.matmul_flops = 1e300, costs.call = 0;
  Choices choices;
  for (NodeId n : p.graph.nodes.ids()) choices.push_back(choices_of(p.graph, n, costs));
  TransitionCostCache prices(costs);
  const LayoutProblem free = layout_problem(p.graph, choices, prices, ChainOverflow::free);
  ASSERT_EQ(free.inexact_values, 1);
  std::mt19937_64 random(7);
  int equal = 0;
  for (int round = 0; round < 40; ++round) {
    ById<NodeId, int> chosen(choices.size(), 0);
    for (NodeId n : choices.ids()) chosen[n] = static_cast<int>(random() % choices[n].size());
    const double price_of_all = assignment_cost(p.graph, choices, chosen, prices);
    const double least = cost_of_choices(free, choices, chosen);
    EXPECT_LE(least, price_of_all * (1 + 1e-9)) << "round " << round;
    equal += least >= price_of_all * (1 - 1e-9);
  }
  EXPECT_GE(equal, 36);
}

// A value with a fixed layout and thirteen consumers: each consumer has a table of its own.
TEST(Shard, AnOverflowingChainOfAFixedValueIsBoundedFromBothSides) {
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
    const LayoutProblem free = layout_problem(p.graph, choices, prices, ChainOverflow::free),
                        dear = layout_problem(p.graph, choices, prices, ChainOverflow::forbidden);
    ASSERT_EQ(free.inexact_values, 1);
    std::mt19937_64 random(7);
    for (int round = 0; round < 20; ++round) {
      ById<NodeId, int> chosen(choices.size(), 0);
      for (NodeId n : choices.ids()) chosen[n] = static_cast<int>(random() % choices[n].size());
      for (const Use& use : uses)  // in round 0 all take it in its layout, and only the output costs
        for (std::size_t c = 0; round == 0 && c < choices[use.node].size(); ++c)
          if (choices[use.node][c].in(0) == Layout{S(0), S(1)}) chosen[use.node] = static_cast<int>(c);
      const double price_of_all = assignment_cost(p.graph, choices, chosen, prices);
      EXPECT_LE(cost_of_choices(free, choices, chosen), price_of_all * (1 + 1e-9)) << "round " << round;
      EXPECT_GE(cost_of_choices(dear, choices, chosen), price_of_all * (1 - 1e-9)) << "round " << round;
    }
  }
}

// Weights too expensive to move, each stored so that it requires another layout of the value: more than a chain tracks,
// until the bound leaves few.
TEST(Shard, MoreLayoutsThanAChainTracksHaveTheirTrueCost) {
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
  double transfers = 0;  // of the boxes
  auto uses = uses_of(c.graph);
  for (ValueId v : c.graph.values.ids()) {
    std::vector<Layout> targets;
    for (const Use& use : uses[v]) targets.push_back(c.wanted[use.node][static_cast<std::size_t>(use.operand)]);
    for (const Output& output : c.graph.outputs)
      if (output.value == v) targets.push_back({B(), B(), B()});
    transfers +=
        transition_tree(c.graph.values[v].type, c.graph.meshes[0], *c.graph.values[v].layout, targets, c.options.costs)
            .seconds;
  }
  EXPECT_NEAR(c.cost, transfers + compute_seconds(c), 1e-9 * c.cost);
}

// Outputs with a layout that the caller leaves to the planner.
TEST(Shard, AnOutputThatIsLeftOpenIsSplitAlongTheNamedAxesAlone) {
  for (const char* axes : {"a", "b", "a+b"}) {
    Program p("a=2,b=2");
    const ValueId x = p.input("x", {256, 256});
    p.fix(x, {S(0), B()});
    const ValueId y = p.b.one("layout", {p.b.one("exp", {x})}, Attrs().set("planned", std::string(axes)));
    p.graph.outputs.push_back({"y", y});
    for (const bool copies : {false, true}) {
      Compilation c = testing::compilation(p.graph);
      const ShardedGraph made = copies ? shard_copies(p.graph, c.options.costs) : shard(p.graph, c.options.costs);
      ASSERT_TRUE(made.graph.outputs[0].layout.has_value());
      const Layout layout = *made.graph.outputs[0].layout;
      EXPECT_EQ(layout[0], axes[0] == 'a' ? S(0) : B()) << axes;
      EXPECT_EQ(layout[1].is_split(), std::string(axes) != "a") << axes;
      EXPECT_EQ(layout, *made.graph.value(made.graph.outputs[0].value).layout);
    }
    std::vector<std::string> moves = moves_of(p.planned());
    std::erase(moves, "slice");  // each device takes its part
    EXPECT_EQ(moves, axes[0] == 'a' ? std::vector<std::string>{} : std::vector<std::string>{"all_gather"}) << axes;
  }
}

TEST(Shard, AnOutputThatIsLeftOpenIsNoPartOfASum) {
  Program p("d=2");
  const ValueId x = p.input("x", {512, 256}), w = p.input("w", {512, 256});
  p.fix(x, {S(0)});
  p.fix(w, {S(0)});
  const ValueId y =
      p.b.one("layout", {build::matmul(p.b, x, w, {.transpose_a = true})}, Attrs().set("planned", std::string("d")));
  p.graph.outputs.push_back({"y", y});
  const Compilation c = p.planned();
  EXPECT_TRUE(c.graph.outputs[0].layout->at(0).is_split());
  EXPECT_EQ(moves_of(c), std::vector<std::string>{"reduce_scatter"});
}

}  // namespace
}  // namespace karez::passes
