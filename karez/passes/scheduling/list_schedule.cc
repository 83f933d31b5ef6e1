// Computes a list schedule by the longest path to the end of the launch.
#include "karez/passes/scheduling/list_schedule.h"

#include <algorithm>
#include <climits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "karez/base/interrupt.h"
#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/node_dependencies.h"

namespace karez::passes {
namespace {

class Schedule {
 public:
  Schedule(const Graph& graph, const Streams& stream, const CostTable& costs)
      : graph_(graph),
        stream_(stream),
        dependencies_(graph),
        seconds_(graph.nodes.size(), 0),
        path_seconds_(graph.nodes.size(), 0),
        waits_for_update_(graph.nodes.size(), false),
        rank_(graph.nodes.size(), INT_MAX) {
    for (NodeId n : graph.nodes.ids()) {
      if (stream[n] != StreamKind::host)
        seconds_[n] = seconds_of(graph, Segment{stream[n], {n}, mesh_of(graph_, n)}, costs);
      const Role role = graph.node(n).op->role;
      if (role == Role::update || role == Role::store) waits_for_update_[n] = true;
      for (NodeId to : dependencies_.successors[n])
        waits_for_update_[to] = waits_for_update_[to] || waits_for_update_[n];
      if (!waits_for_update_[n] && seconds_[n] > 0) ++lanes_[lane_of(n)].pending_before_updates;
    }
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
      NodeId n(i);
      for (NodeId to : dependencies_.successors[n]) path_seconds_[n] = std::max(path_seconds_[n], path_seconds_[to]);
      path_seconds_[n] += seconds_[n];
    }
  }

  ById<NodeId, int> run() {
    // Collected before any of them is finished, because that makes other nodes ready.
    std::vector<NodeId> initial;
    for (NodeId n : graph_.nodes.ids())
      if (dependencies_.in_degree[n] == 0) initial.push_back(n);
    for (NodeId n : initial) ready(n);
    double now = 0;
    for (;;) {
      check_interrupt();
      for (auto& [key, lane] : lanes_) begin_best(lane, now);
      if (ends_.empty()) break;
      now = std::get<double>(*ends_.begin());
      const NodeId n = std::get<NodeId>(*ends_.begin());
      ends_.erase(ends_.begin());
      lanes_.at(lane_of(n)).busy = false;
      finish(n);
    }
    for (std::size_t i = graph_.nodes.size(); i-- > 0;)
      if (NodeId n(i); seconds_[n] == 0)
        for (NodeId to : dependencies_.successors[n]) rank_[n] = std::min(rank_[n], rank_[to]);
    return std::move(rank_);
  }

 private:
  using Key = std::tuple<double, NodeId>;  // smaller first
  using LaneKey = std::pair<bool, int>;    // whether the lane computes, and its mesh; lanes of transfers begin first
  struct Lane {
    std::set<Key> ready, ready_after_updates;
    int pending_before_updates = 0;  // nodes that have not begun and do not wait for an update
    bool busy = false;
  };

  LaneKey lane_of(NodeId n) const { return {stream_[n] == StreamKind::compute, mesh_of(graph_, n)}; }

  void ready(NodeId n) {
    if (seconds_[n] == 0) {
      finish(n);
      return;
    }
    Lane& lane = lanes_[lane_of(n)];
    (waits_for_update_[n] ? lane.ready_after_updates : lane.ready).emplace(-path_seconds_[n], n);
  }

  void finish(NodeId n) {
    for (NodeId to : dependencies_.successors[n])
      if (--dependencies_.in_degree[to] == 0) ready(to);
  }

  void begin_best(Lane& lane, double now) {
    std::set<Key>& from = lane.pending_before_updates > 0 ? lane.ready : lane.ready_after_updates;
    if (lane.busy || from.empty()) return;
    const NodeId n = std::get<NodeId>(*from.begin());
    from.erase(from.begin());
    if (!waits_for_update_[n]) --lane.pending_before_updates;
    lane.busy = true;
    rank_[n] = begun_count_++;
    ends_.emplace(now + seconds_[n], n);
  }

  const Graph& graph_;
  const Streams& stream_;
  NodeDependencies dependencies_;
  ById<NodeId, double> seconds_;         // of the node
  ById<NodeId, double> path_seconds_;    // from the beginning of the node to the end of the launch
  ById<NodeId, bool> waits_for_update_;  // true for an update, and for a node that waits for one
  std::map<LaneKey, Lane> lanes_;
  std::set<Key> ends_;
  ById<NodeId, int> rank_;
  int begun_count_ = 0;
};

}  // namespace

ById<NodeId, int> list_schedule(const Graph& graph, const Streams& stream, const CostTable& costs) {
  return Schedule(graph, stream, costs).run();
}

}  // namespace karez::passes
