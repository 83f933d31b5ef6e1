// Programs on two placements, with nodes of several results, variables that are never read, and nodes of many acts: the
// planner's cost is that of the best of all layouts, each tried.
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

// Values of the first placement go to the second, and sometimes back.
Graph random_graph(Random& random, std::size_t nodes) {
  Graph graph;
  const char* second[] = {"b=2", "b=3", "", "b=2", "c=2"};
  graph.meshes = {Mesh::parse("a=2"), Mesh::parse(second[below(random, 5)])};
  Builder b(graph, testing::table());
  const std::int64_t sizes[] = {1, 3, 8, 500}, m = sizes[below(random, 4)], k = sizes[below(random, 4)];
  auto any = [&] { return ValueId(below(random, graph.values.size())); };
  for (std::size_t s = 1 + below(random, 2); s > 0; --s) {
    const TensorType type{DType::f32, {m, k}};
    below(random, 2) ? testing::parameter(b, cat("w", s), type) : build::input(b, cat("x", s), type);
  }
  const std::size_t sources = graph.nodes.size();
  while (graph.nodes.size() < nodes) {
    const ValueId x = any(), y = any();
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
  if (below(random, 2)) graph.outputs.push_back({"other", any()});
  for (std::size_t v = 0; v < graph.variables.size(); ++v) {
    Variable& variable = graph.variables[v];
    const ValueId next = any();
    if (graph.type(next) == variable.type && graph.value(next).mesh == variable.mesh) variable.updated = next;
    if (below(random, 3) == 0 && variable.type.shape[0] > 2) variable.stored = Layout{S(0)};
  }
  const ValueId kept = any();  // state that is written and not read
  Variable log;
  log.name = "log", log.type = graph.type(kept), log.mesh = graph.value(kept).mesh, log.updated = kept;
  if (below(random, 2) && !log.type.shape.empty() && log.type.shape[0] > 2)
    log.stored = Layout(graph.mesh(kept).axes.size(), S(0));
  if (below(random, 2)) graph.variables.push_back(log);
  if (below(random, 3) ==
      0) {  // the user fixes one result, perhaps the second of its op, in a layout that the op can produce
    const NodeId n(sources + below(random, nodes - sources));
    const ValueId out = graph.node(n).outputs.back();
    if (graph.node(n).op->role != Role::transfer && below(random, 2)) {
      const auto ways = mesh_shardings({&graph, n}, graph.mesh(out));
      Layout layout;
      for (const Sharding& axis : ways[below(random, ways.size())]) layout.push_back(axis.out.back());
      // A product may have a Partial sum as its result only if an operand is one.
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

std::vector<NodeCost> ways_of(const Graph& graph, NodeId n, const CostTable& costs) {
  const Node& node = graph.node(n);
  const Mesh& mesh = graph.mesh(node.outputs[0]);
  std::vector<NodeCost> all;
  if (node.op->role == Role::transfer) {
    const TensorType& type = graph.type(node.inputs[0]);
    const Mesh& source = graph.mesh(node.inputs[0]);
    for (const Layout& from : layouts_without_partial(type, source))
      for (const Layout& to : layouts_without_partial(type, mesh))
        all.push_back({{from}, {to}, node.acts * transfer_seconds(type, {source, from}, {mesh, to}, costs)});
  } else {
    for (const auto& axes : mesh_shardings({&graph, n}, mesh)) {
      NodeCost way{std::vector<Layout>(node.inputs.size()), std::vector<Layout>(node.outputs.size()), 0};
      std::vector<TensorType> in, out;
      for (const Sharding& axis : axes) {
        for (std::size_t i = 0; i < way.in.size(); ++i) way.in[i].push_back(axis.in[i]);
        for (std::size_t o = 0; o < way.out.size(); ++o) way.out[o].push_back(axis.out[o]);
      }
      auto part = [&](ValueId v, const Layout& layout) {
        return TensorType{graph.type(v).dtype, shape_of(local_box(graph.type(v).shape, mesh, layout, 0))};
      };
      for (std::size_t i = 0; i < way.in.size(); ++i) in.push_back(part(node.inputs[i], way.in[i]));
      for (std::size_t o = 0; o < way.out.size(); ++o) out.push_back(part(node.outputs[o], way.out[o]));
      if (node.op->role == Role::compute)
        way.seconds = node.acts * costs.seconds(cost_of(*node.op, in, out, node.attrs));
      all.push_back(std::move(way));
    }
  }
  std::erase_if(all, [&](const NodeCost& way) {
    for (std::size_t o = 0; o < way.out.size(); ++o) {
      if (const auto& fixed = graph.value(node.outputs[o]).layout; fixed && *fixed != way.out[o]) return true;
      for (const Variable& variable : graph.variables)
        if (variable.read == node.outputs[o] && variable.stored && *variable.stored != way.out[o]) return true;
    }
    return false;
  });
  return all;
}

// The least seconds of all assignments; nullopt if there are too many to try.
std::optional<double> best_of_all(const Graph& graph, const CostTable& costs) {
  ById<NodeId, std::vector<NodeCost>> ways;
  double count = 1;
  for (NodeId n : graph.nodes.ids())
    ways.push_back(ways_of(graph, n, costs)), count *= static_cast<double>(ways[n].size());
  if (count > 4000) return std::nullopt;
  double best = INFINITY;
  ById<NodeId, std::size_t> at(ways.size(), 0);
  std::map<std::tuple<ValueId, Layout, std::set<Layout>>, double> trees;
  while (count > 0) {
    double sum = 0;
    ById<ValueId, std::set<Layout>> wanted(graph.values.size());
    auto made = [&](ValueId v) {
      return ways[graph.value(v).producer][at[graph.value(v).producer]]
          .out[static_cast<std::size_t>(graph.value(v).output)];
    };
    for (NodeId n : graph.nodes.ids()) {
      sum += ways[n][at[n]].seconds;
      for (std::size_t i = 0; i < graph.node(n).inputs.size(); ++i)
        wanted[graph.node(n).inputs[i]].insert(ways[n][at[n]].in[i]);
    }
    for (const Output& output : graph.outputs) wanted[output.value].insert(broadcast_layout(graph.mesh(output.value)));
    for (const Variable& variable : graph.variables)
      if (variable.updated.valid())
        wanted[variable.updated].insert(variable.stored ? *variable.stored
                                        : variable.read.valid()
                                            ? made(variable.read)
                                            : broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]));
    for (ValueId v : graph.values.ids()) {
      auto [tree, fresh] = trees.try_emplace({v, made(v), wanted[v]}, 0);
      if (fresh)
        tree->second = transition_tree(graph.type(v), graph.mesh(v), made(v),
                                       std::vector<Layout>(wanted[v].begin(), wanted[v].end()), costs)
                           .seconds;
      sum += graph.node(graph.value(v).producer).acts * tree->second;
    }
    best = std::min(best, sum);
    int n = 0;
    for (; at.has(NodeId(n)) && ++at[NodeId(n)] == ways[NodeId(n)].size(); ++n) at[NodeId(n)] = 0;
    if (!at.has(NodeId(n))) break;
  }
  return best;
}

TEST(ShardPlacements, TheChoiceIsTheBestOfAll) {
  int tried = 0, travelled = 0;
  for (std::uint64_t seed = 1; tried < 250; ++seed) {
    Random random(seed);
    const Graph graph = random_graph(random, 4 + below(random, 3));
    const CostTable costs = random_costs(random);
    const auto best = best_of_all(graph, costs);
    if (!best) continue;
    ++tried;
    const std::string what = cat("seed ", seed, "\n", print(graph), costs.print());
    const ShardedGraph made = shard(graph, costs);
    ASSERT_NEAR(made.cost, *best, 1e-9 * *best + 1e-18) << what;
    ASSERT_TRUE(made.optimal) << what;
    for (ValueId v : graph.values.ids())
      if (graph.value(v).layout) { EXPECT_EQ(made.graph.value(v).layout, graph.value(v).layout) << what; }
    for (std::size_t v = 0; v < graph.variables.size(); ++v) {
      const Variable &before = graph.variables[v], &after = made.graph.variables[v];
      const Layout free = before.read.valid() ? *made.graph.value(before.read).layout
                                              : broadcast_layout(graph.meshes[static_cast<std::size_t>(before.mesh)]);
      EXPECT_EQ(*after.stored, before.stored ? *before.stored : free) << what;
    }
    for (const Node& node : graph.nodes) travelled += node.op->role == Role::transfer;
  }
  EXPECT_GT(travelled, 100);
}

// Nodes that differ in one property are not merged: the program costs the same as without merging.
TEST(ShardCopies, NodesThatDifferInOnePropertyAreNotMerged) {
  for (const char* but : {"path", "line", "acts", "layout", "nothing"}) {
    Graph graph;
    graph.meshes = {Mesh::parse("a=2")};
    Builder b(graph, testing::table());
    b.where = "net.cc:1";
    const std::string_view thing = but;
    const ValueId x = build::input(b, "x", {DType::f32, {64, 500}});
    const ValueId one = build::tanh(b, x);
    if (thing == "path") b.path = "other";
    if (thing == "line") b.where = "net.cc:2";
    const ValueId other = build::tanh(b, x);
    if (thing == "acts") graph.nodes[graph.value(other).producer].acts = 2;
    if (thing == "layout") graph.value(one).layout = Layout{S(0)}, graph.value(other).layout = Layout{B()};
    graph.outputs = {{"one", one, Layout{S(0)}}, {"other", other}};
    CostTable costs;
    costs.memory_bytes = 1e8;
    const ShardedGraph apart = shard(graph, costs), together = shard_copies(graph, costs);
    if (thing == "nothing") {
      EXPECT_LT(together.cost, 0.8 * apart.cost);
    } else {
      EXPECT_NEAR(together.cost, apart.cost, 1e-12 * apart.cost) << but;
    }
    for (ValueId v : {one, other})
      if (graph.value(v).layout) { EXPECT_EQ(together.graph.value(v).layout, graph.value(v).layout) << but; }
  }
}

// On an axis of one device the effective layout is Broadcast.
TEST(ShardCopies, EveryOutputHasItsLayoutWithoutCopies) {
  Graph graph;
  graph.meshes = {Mesh::parse("a=1")};
  Builder b(graph, testing::table());
  const ValueId x = build::input(b, "x", {DType::f32, {8, 4}});
  for (const char* name : {"one", "two", "three"}) graph.outputs.push_back({name, build::tanh(b, x), Layout{S(0)}});
  const ShardedGraph apart = shard(graph, CostTable()), together = shard_copies(graph, CostTable());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(apart.graph.outputs[i].layout, Layout{B()}) << i;
    EXPECT_EQ(together.graph.outputs[i].layout, Layout{B()}) << i;
  }
}

}  // namespace
}  // namespace karez::passes
