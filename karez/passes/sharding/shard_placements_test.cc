// Tests of programs on two placements: the planner's cost is the minimum over all layouts, found by enumeration. Some
// nodes have several results, some act several times, and some variables are never read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "karez/passes/sharding/shard.h"
#include "karez/passes/sharding/shard_copies.h"
#include "karez/passes/test_programs.h"
#include "karez/sbp/transfer.h"
#include "karez/sbp/transition.h"

namespace karez::passes {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

CostTable random_costs(Random& random) {
  const double alphas[] = {0, 1e-7, 1e-5}, betas[] = {1e-12, 1e-10, 1e-8};
  auto link = [&] { return LinkCost{alphas[below(random, 3)], betas[below(random, 3)]}; };
  CostTable costs;
  costs.link = link();
  costs.axis_links = {{"b", link()}};
  costs.memory_bytes = costs.matmul_flops = below(random, 2) ? 1e8 : 1e10;
  return costs;
}

// Draws a program in which values of the first placement are transferred to the second, and sometimes back.
Graph random_graph(Random& random, std::size_t nodes) {
  Graph graph;
  const char* second[] = {"b=2", "b=3", "", "b=2", "c=2"};
  graph.meshes = {Mesh::parse("a=2"), Mesh::parse(second[below(random, 5)])};
  Builder b(graph, testing::table());
  const std::int64_t sizes[] = {1, 3, 8, 500}, m = sizes[below(random, 4)], k = sizes[below(random, 4)];
  auto random_value = [&] { return ValueId(below(random, graph.values.size())); };
  for (std::size_t s = 1 + below(random, 2); s > 0; --s) {
    const TensorType type{DType::f32, {m, k}};
    below(random, 2) ? testing::parameter(b, cat("w", s), type) : build::input(b, cat("x", s), type);
  }
  const std::size_t sources = graph.nodes.size();
  while (graph.nodes.size() < nodes) {
    const ValueId x = random_value(), y = random_value();
    b.mesh = graph.value(x).mesh;
    const TensorType type = graph.type(x);
    const bool f32 = type.dtype == DType::f32;
    switch (below(random, 7)) {
      case 0:
      case 1: b.transfer_to_mesh(x, 1 - b.mesh); break;
      case 2:
        if (f32) build::relu(b, x);
        break;
      case 3:
        if (f32 && graph.type(y) == type && graph.value(y).mesh == b.mesh) build::mul(b, x, y);
        break;
      case 4:
        if (type.shape.size() == 2) build::transpose(b, x, {1, 0});
        break;
      case 5:
        if (f32 && !type.shape.empty()) build::reduce_sum(b, x, {0});
        break;
      default:
        if (f32 && type.shape.size() == 2) build::sort(b, x, static_cast<int>(below(random, 2)));
    }
  }
  graph.outputs.push_back({"last", ValueId(graph.values.size() - 1)});
  if (below(random, 2)) graph.outputs.push_back({"other", random_value()});
  for (std::size_t v = 0; v < graph.variables.size(); ++v) {
    Variable& variable = graph.variables[v];
    const ValueId next = random_value();
    if (graph.type(next) == variable.type && graph.value(next).mesh == variable.mesh) variable.updated = next;
    if (below(random, 3) == 0 && variable.type.shape[0] > 2) variable.stored = Layout{S(0)};
  }
  const ValueId log_value = random_value();  // state that is written and not read
  Variable log;
  log.name = "log", log.type = graph.type(log_value), log.mesh = graph.value(log_value).mesh, log.updated = log_value;
  if (below(random, 2) && !log.type.shape.empty() && log.type.shape[0] > 2)
    log.stored = Layout(graph.mesh(log_value).axes.size(), S(0));
  if (below(random, 2)) graph.variables.push_back(log);
  if (below(random, 3) == 0) {  // fix one result, perhaps the second of its op, in a layout that the op can produce
    const NodeId n(sources + below(random, nodes - sources));
    const ValueId out = graph.node(n).outputs.back();
    if (graph.node(n).op->role != Role::transfer && below(random, 2)) {
      const auto choices = mesh_shardings({&graph, n}, graph.mesh(out));
      Layout layout;
      for (const Sharding& axis : choices[below(random, choices.size())]) layout.push_back(axis.out.back());
      // A product may have a Partial sum as its result only if an operand is a Partial sum.
      const bool sum = std::find(layout.begin(), layout.end(), P()) != layout.end();
      if (!sum || graph.node(n).op->name != "mul") graph.value(out).layout = layout;
    } else if (graph.node(n).op->role == Role::transfer) {
      graph.value(out).layout = layouts_without_partial(graph.type(out), graph.mesh(out))[0];
    }
  }
  if (below(random, 3) == 0)
    for (NodeId n : graph.nodes.ids())
      if (graph.node(n).op->role != Role::state) graph.nodes[n].acts = 3;
  return graph;
}

struct NodeCost {
  std::vector<Layout> in, out;
  double seconds = 0;
};

std::vector<NodeCost> node_costs(const Graph& graph, NodeId n, const CostTable& costs) {
  const Node& node = graph.node(n);
  const Mesh& mesh = graph.mesh(node.outputs[0]);
  std::vector<NodeCost> costs_of_choices;
  if (node.op->role == Role::transfer) {
    const TensorType& type = graph.type(node.inputs[0]);
    const Mesh& source = graph.mesh(node.inputs[0]);
    for (const Layout& from : layouts_without_partial(type, source))
      for (const Layout& to : layouts_without_partial(type, mesh))
        costs_of_choices.push_back(
            {{from}, {to}, node.acts * transfer_seconds(type, {source, from}, {mesh, to}, costs)});
  } else {
    for (const auto& axes : mesh_shardings({&graph, n}, mesh)) {
      NodeCost choice{std::vector<Layout>(node.inputs.size()), std::vector<Layout>(node.outputs.size()), 0};
      std::vector<TensorType> in, out;
      for (const Sharding& axis : axes) {
        for (std::size_t i = 0; i < choice.in.size(); ++i) choice.in[i].push_back(axis.in[i]);
        for (std::size_t o = 0; o < choice.out.size(); ++o) choice.out[o].push_back(axis.out[o]);
      }
      auto part = [&](ValueId v, const Layout& layout) {
        return TensorType{graph.type(v).dtype, shape_of(local_box(graph.type(v).shape, mesh, layout, 0))};
      };
      for (std::size_t i = 0; i < choice.in.size(); ++i) in.push_back(part(node.inputs[i], choice.in[i]));
      for (std::size_t o = 0; o < choice.out.size(); ++o) out.push_back(part(node.outputs[o], choice.out[o]));
      if (node.op->role == Role::compute)
        choice.seconds = node.acts * costs.seconds(cost_of(*node.op, in, out, node.attrs));
      costs_of_choices.push_back(std::move(choice));
    }
  }
  std::erase_if(costs_of_choices, [&](const NodeCost& choice) {
    for (std::size_t o = 0; o < choice.out.size(); ++o) {
      if (const auto& fixed = graph.value(node.outputs[o]).layout; fixed && *fixed != choice.out[o]) return true;
      for (const Variable& variable : graph.variables)
        if (variable.read == node.outputs[o] && variable.stored && *variable.stored != choice.out[o]) return true;
    }
    return false;
  });
  return costs_of_choices;
}

// Returns the minimum seconds over all assignments; nullopt if there are too many to enumerate.
std::optional<double> min_cost(const Graph& graph, const CostTable& costs) {
  ById<NodeId, std::vector<NodeCost>> choices;
  double count = 1;
  for (NodeId n : graph.nodes.ids())
    choices.push_back(node_costs(graph, n, costs)), count *= static_cast<double>(choices[n].size());
  if (count > 4000) return std::nullopt;
  double best = INFINITY;
  ById<NodeId, std::size_t> chosen(choices.size(), 0);
  std::map<std::tuple<ValueId, Layout, std::set<Layout>>, double> trees;
  while (count > 0) {
    double sum = 0;
    ById<ValueId, std::set<Layout>> targets(graph.values.size());
    auto produced_layout = [&](ValueId v) {
      return choices[graph.value(v).producer][chosen[graph.value(v).producer]]
          .out[static_cast<std::size_t>(graph.value(v).output)];
    };
    for (NodeId n : graph.nodes.ids()) {
      sum += choices[n][chosen[n]].seconds;
      for (std::size_t i = 0; i < graph.node(n).inputs.size(); ++i)
        targets[graph.node(n).inputs[i]].insert(choices[n][chosen[n]].in[i]);
    }
    for (const Output& output : graph.outputs) targets[output.value].insert(broadcast_layout(graph.mesh(output.value)));
    for (const Variable& variable : graph.variables)
      if (variable.updated.valid())
        targets[variable.updated].insert(variable.stored ? *variable.stored
                                         : variable.read.valid()
                                             ? produced_layout(variable.read)
                                             : broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]));
    for (ValueId v : graph.values.ids()) {
      auto [tree, inserted] = trees.try_emplace({v, produced_layout(v), targets[v]}, 0);
      if (inserted)
        tree->second = transition_tree(graph.type(v), graph.mesh(v), produced_layout(v),
                                       std::vector<Layout>(targets[v].begin(), targets[v].end()), costs)
                           .seconds;
      sum += graph.node(graph.value(v).producer).acts * tree->second;
    }
    best = std::min(best, sum);
    int n = 0;
    for (; chosen.has(NodeId(n)) && ++chosen[NodeId(n)] == choices[NodeId(n)].size(); ++n) chosen[NodeId(n)] = 0;
    if (!chosen.has(NodeId(n))) break;
  }
  return best;
}

TEST(ShardPlacements, TheChoiceIsOptimal) {
  int accepted = 0, transfers = 0;
  for (std::uint64_t seed = 1; accepted < 250; ++seed) {
    Random random(seed);
    const Graph graph = random_graph(random, 4 + below(random, 3));
    const CostTable costs = random_costs(random);
    const auto best = min_cost(graph, costs);
    if (!best) continue;
    ++accepted;
    const std::string what = cat("seed ", seed, "\n", print(graph), costs.print());
    const ShardedGraph sharded = shard(graph, costs);
    ASSERT_NEAR(sharded.cost, *best, 1e-9 * *best + 1e-18) << what;
    ASSERT_TRUE(sharded.optimal) << what;
    for (ValueId v : graph.values.ids())
      if (graph.value(v).layout) { EXPECT_EQ(sharded.graph.value(v).layout, graph.value(v).layout) << what; }
    for (std::size_t v = 0; v < graph.variables.size(); ++v) {
      const Variable &given_variable = graph.variables[v], &sharded_variable = sharded.graph.variables[v];
      const Layout unfixed_layout = given_variable.read.valid()
                                        ? *sharded.graph.value(given_variable.read).layout
                                        : broadcast_layout(graph.meshes[static_cast<std::size_t>(given_variable.mesh)]);
      EXPECT_EQ(*sharded_variable.stored, given_variable.stored ? *given_variable.stored : unfixed_layout) << what;
    }
    for (const Node& node : graph.nodes) transfers += node.op->role == Role::transfer;
  }
  EXPECT_GT(transfers, 100);
}

// Nodes that differ in one property are not merged, so the program costs the same as without merging.
TEST(ShardCopies, NodesThatDifferInOnePropertyAreNotMerged) {
  for (const char* property : {"path", "line", "acts", "layout", "nothing"}) {
    Graph graph;
    graph.meshes = {Mesh::parse("a=2")};
    Builder b(graph, testing::table());
    b.where = "net.cc:1";
    const std::string_view property_name = property;
    const ValueId x = build::input(b, "x", {DType::f32, {64, 500}});
    const ValueId first = build::tanh(b, x);
    if (property_name == "path") b.path = "other";
    if (property_name == "line") b.where = "net.cc:2";
    const ValueId other = build::tanh(b, x);
    if (property_name == "acts") graph.nodes[graph.value(other).producer].acts = 2;
    if (property_name == "layout") graph.value(first).layout = Layout{S(0)}, graph.value(other).layout = Layout{B()};
    graph.outputs = {{"one", first, Layout{S(0)}}, {"other", other}};
    CostTable costs;
    costs.memory_bytes = 1e8;
    const ShardedGraph separate = shard(graph, costs), merged = shard_copies(graph, costs);
    if (property_name == "nothing") {
      EXPECT_LT(merged.cost, 0.8 * separate.cost);
    } else {
      EXPECT_NEAR(merged.cost, separate.cost, 1e-12 * separate.cost) << property;
    }
    for (ValueId v : {first, other})
      if (graph.value(v).layout) { EXPECT_EQ(merged.graph.value(v).layout, graph.value(v).layout) << property; }
  }
}

// On an axis of one device the effective layout is Broadcast.
TEST(ShardCopies, EveryOutputGetsItsEffectiveLayout) {
  Graph graph;
  graph.meshes = {Mesh::parse("a=1")};
  Builder b(graph, testing::table());
  const ValueId x = build::input(b, "x", {DType::f32, {8, 4}});
  for (const char* name : {"one", "two", "three"}) graph.outputs.push_back({name, build::tanh(b, x), Layout{S(0)}});
  const ShardedGraph separate = shard(graph, CostTable()), merged = shard_copies(graph, CostTable());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(separate.graph.outputs[i].layout, Layout{B()}) << i;
    EXPECT_EQ(merged.graph.outputs[i].layout, Layout{B()}) << i;
  }
}

}  // namespace
}  // namespace karez::passes
