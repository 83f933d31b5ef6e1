// Tests of the largest part of a value, of peak bytes in program order, and of copied layouts.
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

std::int64_t max_bytes_on_any_device(const TensorType& type, const Mesh& mesh, const Layout& layout) {
  std::int64_t maximum = 0;
  for (int d = 0; d < mesh.size(); ++d) maximum = std::max(maximum, bytes_on(type, mesh, layout, d));
  return maximum;
}

// Returns a graph of pointwise calls, windows, constants, inputs, variables and updates of variables, in which every
// value has a random layout.
Graph random_graph_with_layouts(Random& random) {
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
    const auto legal_layouts = layouts_without_partial(graph.type(v), graph.mesh(v));
    graph.value(v).layout = legal_layouts[below(random, legal_layouts.size())];
  }
  for (Variable& variable : graph.variables) variable.stored = graph.value(variable.read).layout;
  return graph;
}

// Returns the peak live bytes of each placement, counting only the results of nodes that `is_counted` selects. A value
// is live from its producer to the last reader of the value or of a window on it.
template <class Counts> std::vector<std::int64_t> peak_bytes(const Graph& graph, Counts is_counted) {
  std::vector<std::int64_t> maximum(graph.meshes.size(), 0);
  for (std::size_t now = 0; now < graph.nodes.size(); ++now) {
    std::vector<std::int64_t> live_bytes(graph.meshes.size(), 0);
    for (ValueId v : graph.values.ids()) {
      const auto produced = static_cast<std::size_t>(graph.value(v).producer.index);
      if (produced > now || !is_counted(graph.node(graph.value(v).producer))) continue;
      std::size_t last = produced;
      std::vector<ValueId> seen = {v};
      for (std::size_t n = produced + 1; n < graph.nodes.size(); ++n)
        for (ValueId in : graph.node(NodeId(n)).inputs)
          if (std::find(seen.begin(), seen.end(), in) != seen.end()) {
            last = std::max(last, n);
            if (graph.node(NodeId(n)).op->role == Role::window) seen.push_back(graph.node(NodeId(n)).outputs[0]);
          }
      if (last >= now)
        live_bytes[static_cast<std::size_t>(graph.value(v).mesh)] +=
            max_bytes_on_any_device(graph.type(v), graph.mesh(v), *graph.value(v).layout);
    }
    for (std::size_t m = 0; m < live_bytes.size(); ++m) maximum[m] = std::max(maximum[m], live_bytes[m]);
  }
  return maximum;
}

TEST(Price, TheLargestPartIsTheMaximumOverDevices) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const Graph graph = random_graph_with_layouts(random);
    for (ValueId v : graph.values.ids())
      EXPECT_EQ(largest_part(graph, v), max_bytes_on_any_device(graph.type(v), graph.mesh(v), *graph.value(v).layout))
          << "seed " << seed;
  }
}

TEST(Price, PeakBytesInProgramOrderAreTheMaximumOverAllNodes) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    Graph graph = random_graph_with_layouts(random);
    if (below(random, 2)) graph.outputs.push_back({"y", ValueId(below(random, graph.values.size()))});
    const auto live = peak_bytes(graph, [](const Node& node) {
      return node.op->role != Role::window && node.op->role != Role::state && node.op->role != Role::constant &&
             node.op->role != Role::source && node.op->role != Role::update;
    });
    EXPECT_EQ(peak_live_bytes(graph), *std::max_element(live.begin(), live.end())) << "seed " << seed << "\n"
                                                                                   << print(graph);
    auto live_bytes = peak_bytes(graph, [&](const Node& node) {
      if (!graph.outputs.empty() && node.outputs[0] == graph.outputs[0].value && node.op->role != Role::source)
        return false;  // in the memory of the user
      return node.op->role != Role::window && node.op->role != Role::state && node.op->role != Role::constant &&
             node.op->role != Role::update && node.op->role != Role::store;
    });
    for (const Variable& variable : graph.variables)
      live_bytes[static_cast<std::size_t>(variable.mesh)] += max_bytes_on_any_device(
          variable.type, graph.meshes[static_cast<std::size_t>(variable.mesh)], *variable.stored);
    EXPECT_EQ(peak_device_bytes(graph), *std::max_element(live_bytes.begin(), live_bytes.end()))
        << "seed " << seed << "\n"
        << print(graph);
  }
}

TEST(LayoutCopy, NodesThatDifferInOnePropertyGetDifferentLayouts) {
  const std::vector<std::string> properties = {"path", "line", "acts", "attribute", "operand", "result", "mesh"};
  for (const std::string& property : properties) {
    Graph graph;
    graph.meshes = {Mesh::parse("a=2"), Mesh::parse("b=2")};
    Builder b(graph, testing::table());
    b.where = "net.cc:1";
    const ValueId x = build::input(b, "x", {DType::f32, {4, 4}}), y = build::input(b, "y", {DType::f32, {4, 4}});
    const auto sorted = build::sort(b, x, 0);
    const ValueId first_value =
        property == "result" ? build::cast(b, sorted.values, DType::bf16) : build::reduce_sum(b, x, {0});
    if (property == "path") b.path = "other";
    if (property == "line") b.where = "net.cc:2";
    const ValueId operand = property == "mesh" ? b.transfer_to_mesh(x, 1) : x;
    if (property == "mesh") b.mesh = 1;
    const ValueId second_value = property == "result" ? build::cast(b, sorted.indices, DType::bf16)
                                                      : build::reduce_sum(b, property == "operand" ? y : operand,
                                                                          {property == "attribute" ? 1 : 0});
    if (property == "acts") graph.nodes[graph.value(second_value).producer].acts = 2;
    testing::parameter(b, "w", {DType::f32, {4}});
    const Graph unsharded = graph;
    ShardedGraph sharded;
    sharded.graph = graph;
    sharded.cost = 7;
    for (NodeId n : graph.nodes.ids()) {
      sharded.operand_layouts.emplace_back(graph.node(n).inputs.size(), Layout{n.index % 2 ? S(0) : B()});
      for (ValueId out : graph.node(n).outputs) sharded.graph.value(out).layout = Layout{n.index % 3 ? B() : S(0)};
    }
    sharded.graph.value(first_value).layout = Layout{S(0)}, sharded.graph.value(second_value).layout = Layout{B()};
    sharded.graph.variables[0].stored = Layout{S(0)};
    Graph fixed = unsharded;
    fixed.variables[0].stored = Layout{B()};
    const auto copied = copy_layouts(fixed, sharded);
    ASSERT_TRUE(copied.has_value());
    EXPECT_EQ(copied->cost, 7);
    for (ValueId v : graph.values.ids())
      EXPECT_EQ(copied->graph.value(v).layout, sharded.graph.value(v).layout) << property << " %" << v;
    EXPECT_EQ(copied->operand_layouts, sharded.operand_layouts) << property;
    EXPECT_EQ(copied->graph.variables[0].stored, sharded.graph.variables[0].stored);
  }
}

}  // namespace
}  // namespace karez::passes
