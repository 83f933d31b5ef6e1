// Tests that compare the list schedule with a plain simulation of random programs on two placements.
#include "karez/passes/scheduling/list_schedule.h"

#include <gtest/gtest.h>

#include <climits>
#include <random>

#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

Graph random_graph(Random& random) {
  Graph graph;
  graph.meshes = {Mesh({}, {{0, 0}}), Mesh({}, {{0, 1}})};
  Builder b(graph, testing::table());
  auto size = [&] { return static_cast<std::int64_t>(1000 * (1 + below(random, 12))); };
  std::vector<ValueId> weights;
  for (int w = 0; w < 2; ++w) {
    b.mesh = w;
    weights.push_back(testing::parameter(b, cat("w", w), {DType::f32, {size()}}));
    graph.variables.back().mesh = w;
    build::input(b, cat("x", w), {DType::f32, {size()}});
  }
  for (std::size_t k = 6 + below(random, 14); k > 0; --k) {
    const ValueId x(below(random, graph.values.size()));
    if (graph.type(x).shape.empty()) continue;
    b.mesh = graph.value(x).mesh;
    const std::int64_t count = graph.type(x).shape[0];
    switch (below(random, 7)) {
      case 0: b.transfer_to_mesh(x, 1 - b.mesh); break;
      case 1: build::reshape(b, x, graph.type(x).shape); break;
      case 2: build::concat(b, std::vector{x, build::full(b, DType::f32, {size()}, 1)}, 0); break;
      case 3: b.one("assign", {x, build::exp(b, x)}); break;
      case 4: build::mul(b, x, build::full(b, DType::f32, {count}, 2)); break;
      default: build::exp(b, x);
    }
    const NodeId last(graph.nodes.size() - 1);
    if (below(random, 4) == 0)
      graph.nodes[last].after.push_back(NodeId(below(random, static_cast<std::size_t>(last.index))));
  }
  for (Value& value : graph.values) value.layout = Layout{};
  return graph;
}

// A simulation that checks all streams at every step, transfer streams first. An idle stream begins the node with the
// longest path to the end.
class Simulation {
 public:
  Simulation(const Graph& graph, const Streams& stream, const CostTable& costs)
      : graph_(graph),
        stream_(stream),
        count_(graph.nodes.size()),
        seconds_(count_, 0),
        path_seconds_(count_, 0),
        waits_for_update_(count_, false),
        predecessors_(count_),
        end_(count_, -1),
        done_(count_, false),
        rank_(count_, INT_MAX) {
    for (NodeId n : graph.nodes.ids()) {
      if (stream[n] != StreamKind::host) seconds_[n] = seconds_of(graph, Segment{stream[n], {n}, mesh(n)}, costs);
      for (ValueId in : graph.node(n).inputs) predecessors_[n].push_back(graph.value(in).producer);
      for (NodeId predecessor : graph.node(n).after) predecessors_[n].push_back(predecessor);
      const Role role = graph.node(n).op->role;
      waits_for_update_[n] = role == Role::update || role == Role::store;
      for (NodeId from : predecessors_[n]) waits_for_update_[n] = waits_for_update_[n] || waits_for_update_[from];
    }
    for (std::size_t i = count_; i-- > 0;) {
      const NodeId n(i);
      path_seconds_[n] += seconds_[n];
      for (NodeId from : predecessors_[n]) path_seconds_[from] = std::max(path_seconds_[from], path_seconds_[n]);
    }
  }

  ById<NodeId, int> run() {
    double now = 0;
    int begun_count = 0;
    while (true) {
      for (bool changed = true; changed;) {
        changed = false;
        for (NodeId n : graph_.nodes.ids())
          if (!done_[n] && seconds_[n] == 0 && is_ready(n)) done_[n] = changed = true;
      }
      for (StreamKind kind : {StreamKind::comm, StreamKind::compute})
        for (int mesh_number : {0, 1})
          if (const NodeId n = best(kind, mesh_number); n.valid())
            end_[n] = now + seconds_[n], rank_[n] = begun_count++;
      NodeId next;
      for (NodeId n : graph_.nodes.ids())
        if (end_[n] >= 0 && !done_[n] && (!next.valid() || end_[n] < end_[next])) next = n;
      if (!next.valid()) break;
      done_[next] = true;
      now = end_[next];
    }
    for (std::size_t i = count_; i-- > 0;)
      for (NodeId from : predecessors_[NodeId(i)])
        if (seconds_[from] == 0) rank_[from] = std::min(rank_[from], rank_[NodeId(i)]);
    return rank_;
  }

 private:
  int mesh(NodeId n) const { return graph_.value(graph_.node(n).outputs[0]).mesh; }
  bool is_ready(NodeId n) const {
    return std::all_of(predecessors_[n].begin(), predecessors_[n].end(), [&](NodeId from) { return done_[from]; });
  }
  // Returns the node that an idle stream begins, or an invalid id. Nodes that wait for an update begin after all
  // others.
  NodeId best(StreamKind kind, int mesh_number) const {
    bool has_others = false;
    for (NodeId n : graph_.nodes.ids())
      if (stream_[n] == kind && mesh(n) == mesh_number && seconds_[n] > 0) {
        if (end_[n] >= 0 && !done_[n]) return {};
        has_others = has_others || (end_[n] < 0 && !waits_for_update_[n]);
      }
    NodeId best_node;
    for (NodeId n : graph_.nodes.ids()) {
      if (stream_[n] != kind || mesh(n) != mesh_number || seconds_[n] == 0 || end_[n] >= 0 || !is_ready(n) ||
          (has_others && waits_for_update_[n]))
        continue;
      if (!best_node.valid() || path_seconds_[n] > path_seconds_[best_node]) best_node = n;
    }
    return best_node;
  }

  const Graph& graph_;
  const Streams& stream_;
  std::size_t count_;
  ById<NodeId, double> seconds_, path_seconds_;
  ById<NodeId, bool> waits_for_update_;
  ById<NodeId, std::vector<NodeId>> predecessors_;
  ById<NodeId, double> end_;
  ById<NodeId, bool> done_;
  ById<NodeId, int> rank_;
};

TEST(ListSchedule, TheOrderEqualsTheOrderOfAPlainSimulation) {
  int updates = 0, transfers = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const Graph graph = random_graph(random);
    CostTable costs;
    costs.memory_bytes = 1e9, costs.call = 1e-7;
    costs.link = {below(random, 2) ? 1e-6 : 1e-5, 1e-9};
    Streams stream;
    for (const Node& node : graph.nodes) {
      const Role role = node.op->role;
      stream.push_back(role == Role::transfer ? StreamKind::comm
                       : role == Role::source ? StreamKind::host
                                              : StreamKind::compute);
      updates += role == Role::update || role == Role::store;
      transfers += role == Role::transfer;
    }
    const auto actual = list_schedule(graph, stream, costs), expected = Simulation(graph, stream, costs).run();
    for (NodeId n : graph.nodes.ids())
      ASSERT_EQ(actual[n], expected[n]) << "seed " << seed << ", node " << n.index << "\n" << print(graph);
  }
  EXPECT_GT(updates, 100);
  EXPECT_GT(transfers, 100);
}

}  // namespace
}  // namespace karez::passes
