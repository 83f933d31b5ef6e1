// The largest part of a value, compared with every device; copied layouts; and peak bytes in program order.
#include "karez/passes/sharding/device_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "karez/passes/memory_limit/memory_estimate.h"
#include "karez/passes/scheduling/peak_live_bytes.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/layout_copy.h"
#include "karez/passes/test_programs.h"
#include "karez/sbp/transfer.h"

namespace karez::passes {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

std::int64_t bytes_on(const TensorType& type, const Mesh& mesh, const Layout& layout, int device) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape_of(local_box(type.shape, mesh, layout, device))) count *= n;
  return count * (type.dtype == DType::i64 || type.dtype == DType::f64 ? 8 : type.dtype == DType::bf16 ? 2 : 4);
}

std::int64_t max_on_any(const TensorType& type, const Mesh& mesh, const Layout& layout) {
  std::int64_t most = 0;
  for (int d = 0; d < mesh.size(); ++d) most = std::max(most, bytes_on(type, mesh, layout, d));
  return most;
}

// Pointwise calls, windows, constants, inputs, variables and their updates, each with a random layout.
Graph random_laid(Random& random) {
  Graph graph;
  graph.meshes = {Mesh::parse("a=2"), Mesh::parse("b=3")};
  Builder b(graph, testing::table());
  const DType types[] = {DType::f32, DType::f64, DType::bf16};
  for (int m = 0; m < 2; ++m) {
    b.mesh = m;
    for (int k = 0; k < 2; ++k) {
      const TensorType type{types[below(random, 3)], {static_cast<std::int64_t>(1 + below(random, 9)), 5}};
      if (k > 0) {
        build::input(b, cat("x", m), type);
        continue;
      }
      testing::parameter(b, cat("w", m), type);
      graph.variables.back().mesh = m;
    }
  }
  for (std::size_t k = 4 + below(random, 12); k > 0; --k) {
    const ValueId x(below(random, graph.values.size()));
    if (graph.type(x).shape.empty()) continue;
    b.mesh = graph.value(x).mesh;
    const TensorType type = graph.type(x);
    switch (below(random, 8)) {
      case 0: build::transpose(b, x, {1, 0}); break;
      case 1: build::full(b, type.dtype, type.shape, 3); break;
      case 2: b.one("assign", {x, x}); break;
      case 3: b.transfer_to_mesh(x, 1 - b.mesh); break;
      case 4: build::cast(b, x, types[below(random, 3)]); break;
      default: build::exp(b, x);
    }
  }
  for (ValueId v : graph.values.ids()) {
    const auto all = layouts_without_partial(graph.type(v), graph.mesh(v));
    graph.value(v).layout = all[below(random, all.size())];
  }
  for (Variable& variable : graph.variables) variable.stored = graph.value(variable.read).layout;
  return graph;
}

// Peak live bytes by placement, of the nodes that `counts` selects: a value lives from its producer to the last reader
// of it or of a window on it.
template <class Counts> std::vector<std::int64_t> held_at_most(const Graph& graph, Counts counts) {
  std::vector<std::int64_t> most(graph.meshes.size(), 0);
  for (std::size_t now = 0; now < graph.nodes.size(); ++now) {
    std::vector<std::int64_t> held(graph.meshes.size(), 0);
    for (ValueId v : graph.values.ids()) {
      const auto made = static_cast<std::size_t>(graph.value(v).producer.index);
      if (made > now || !counts(graph.node(graph.value(v).producer))) continue;
      std::size_t last = made;
      std::vector<ValueId> seen = {v};
      for (std::size_t n = made + 1; n < graph.nodes.size(); ++n)
        for (ValueId in : graph.node(NodeId(n)).inputs)
          if (std::find(seen.begin(), seen.end(), in) != seen.end()) {
            last = std::max(last, n);
            if (graph.node(NodeId(n)).op->role == Role::window) seen.push_back(graph.node(NodeId(n)).outputs[0]);
          }
      if (last >= now)
        held[static_cast<std::size_t>(graph.value(v).mesh)] +=
            max_on_any(graph.type(v), graph.mesh(v), *graph.value(v).layout);
    }
    for (std::size_t m = 0; m < held.size(); ++m) most[m] = std::max(most[m], held[m]);
  }
  return most;
}

TEST(Price, TheLargestPartIsTheMaximumOverDevices) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const Graph graph = random_laid(random);
    for (ValueId v : graph.values.ids())
      EXPECT_EQ(largest_part(graph, v), max_on_any(graph.type(v), graph.mesh(v), *graph.value(v).layout)) << seed;
  }
}

TEST(Price, PeakBytesInProgramOrderAreTheMaximumOverAllNodes) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const Graph graph = random_laid(random);
    const auto live = held_at_most(graph, [](const Node& node) {
      return node.op->role != Role::window && node.op->role != Role::state && node.op->role != Role::constant &&
             node.op->role != Role::source && node.op->role != Role::update;
    });
    EXPECT_EQ(peak_live_bytes(graph), *std::max_element(live.begin(), live.end())) << "seed " << seed << "\n"
                                                                                   << print(graph);
    auto held = held_at_most(graph, [](const Node& node) {
      return node.op->role != Role::window && node.op->role != Role::state && node.op->role != Role::constant &&
             node.op->role != Role::update && node.op->role != Role::store;
    });
    for (const Variable& variable : graph.variables)
      held[static_cast<std::size_t>(variable.mesh)] +=
          max_on_any(variable.type, graph.meshes[static_cast<std::size_t>(variable.mesh)], *variable.stored);
    EXPECT_EQ(peak_device_bytes(graph), *std::max_element(held.begin(), held.end())) << "seed " << seed << "\n"
                                                                                     << print(graph);
  }
}

TEST(LayoutCopy, NodesThatDifferInOnePropertyKeepTheirOwnLayouts) {
  const std::vector<std::string> things = {"path", "line", "acts", "attribute", "operand", "result", "mesh"};
  for (const std::string& thing : things) {
    Graph graph;
    graph.meshes = {Mesh::parse("a=2"), Mesh::parse("b=2")};
    Builder b(graph, testing::table());
    b.where = "net.cc:1";
    const ValueId x = build::input(b, "x", {DType::f32, {4, 4}}), y = build::input(b, "y", {DType::f32, {4, 4}});
    const auto sorted = build::sort(b, x, 0);
    const ValueId one = thing == "result" ? build::cast(b, sorted.values, DType::bf16) : build::reduce_sum(b, x, {0});
    if (thing == "path") b.path = "other";
    if (thing == "line") b.where = "net.cc:2";
    const ValueId from = thing == "mesh" ? b.transfer_to_mesh(x, 1) : x;
    if (thing == "mesh") b.mesh = 1;
    const ValueId other = thing == "result"
                              ? build::cast(b, sorted.indices, DType::bf16)
                              : build::reduce_sum(b, thing == "operand" ? y : from, {thing == "attribute" ? 1 : 0});
    if (thing == "acts") graph.nodes[graph.value(other).producer].acts = 2;
    testing::parameter(b, "w", {DType::f32, {4}});
    const Graph bare = graph;
    ShardedGraph laid;
    laid.graph = graph;
    laid.cost = 7;
    for (NodeId n : graph.nodes.ids()) {
      laid.wanted.emplace_back(graph.node(n).inputs.size(), Layout{n.index % 2 ? S(0) : B()});
      for (ValueId out : graph.node(n).outputs) laid.graph.value(out).layout = Layout{n.index % 3 ? B() : S(0)};
    }
    laid.graph.value(one).layout = Layout{S(0)}, laid.graph.value(other).layout = Layout{B()};
    laid.graph.variables[0].stored = Layout{S(0)};
    Graph fixed = bare;
    fixed.variables[0].stored = Layout{B()};
    const auto made = copy_layouts(fixed, laid);
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(made->cost, 7);
    for (ValueId v : graph.values.ids())
      EXPECT_EQ(made->graph.value(v).layout, laid.graph.value(v).layout) << thing << " %" << v;
    EXPECT_EQ(made->wanted, laid.wanted) << thing;
    EXPECT_EQ(made->graph.variables[0].stored, laid.graph.variables[0].stored);
  }
}

}  // namespace
}  // namespace karez::passes
