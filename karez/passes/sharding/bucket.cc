// bucket: finds the all_reduces that may be merged and the fastest bucket size, and builds the merged graph.
#include "karez/passes/sharding/bucket.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <tuple>

#include "karez/passes/rewrite.h"
#include "karez/passes/scheduling/node_dependencies.h"
#include "karez/passes/scheduling/order.h"
#include "karez/sbp/transition.h"

namespace karez::passes {
namespace {

constexpr double min_message_seconds = 1e-5;  // axes with a lower latency per message are skipped
constexpr double max_time_ratio = 0.998;      // a launch with buckets must take at most this share of one without

// The attributes that members of a bucket share. The move is an all_reduce, so "from" gives the reduction.
using BucketKey = std::tuple<int, std::int64_t, std::string, DType>;  // mesh, axis, from, dtype

ValueId operand(const Graph& graph, NodeId box) { return graph.node(box).inputs[0]; }

bool may_join(const Graph& graph, NodeId id, const CostTable& costs) {
  const Node& node = graph.node(id);
  if (node.op->role != Role::transition || node.attrs.text("move") != name_of(Move::all_reduce) || node.acts > 1)
    return false;
  const MeshAxis& axis = graph.mesh(operand(graph, id)).axes[static_cast<std::size_t>(node.attrs.integer("axis"))];
  if (costs.of_axis(axis.name).alpha < min_message_seconds) return false;
  const Layout& layout = *graph.value(operand(graph, id)).layout;
  return std::none_of(layout.begin(), layout.end(), [](const Sbp& entry) { return entry.is_split(); });
}

BucketKey bucket_key(const Graph& graph, NodeId box) {
  const Node& node = graph.node(box);
  return {graph.value(operand(graph, box)).mesh, node.attrs.integer("axis"),
          node.attrs.text("from") + print(*graph.value(operand(graph, box)).layout),
          graph.type(operand(graph, box)).dtype};
}

std::int64_t bytes_of(const Graph& graph, NodeId box) { return graph.type(operand(graph, box)).bytes(); }

// A bucket that is being filled, and the nodes that depend on its members.
struct OpenBucket {
  Bucket members;
  std::int64_t bytes = 0;
  ById<NodeId, bool> descendants;

  void add(const Graph& graph, const NodeDependencies& dependencies, NodeId box) {
    if (members.empty()) descendants.assign(graph.nodes.size(), false);
    members.push_back(box);
    bytes += bytes_of(graph, box);
    descendants[box] = true;
    for (NodeId n(box.index); n.index < static_cast<int>(graph.nodes.size()); n = NodeId(n.index + 1))
      if (descendants[n])
        for (NodeId next : dependencies.successors[n]) descendants[next] = true;
  }
};

// Sorts nodes and buckets topologically, as close to the old order as possible; a bucket has the position of its last
// member. The result is empty if buckets depend on each other in a cycle.
class BucketOrder {
 public:
  BucketOrder(const Graph& graph, const std::vector<Bucket>& buckets)
      : graph_(graph),
        first_(graph.nodes.size()),
        last_(graph.nodes.size()) {
    for (NodeId n : graph.nodes.ids()) first_[n] = last_[n] = n;
    for (const Bucket& bucket : buckets)
      for (NodeId member : bucket) first_[member] = bucket.front(), last_[bucket.front()] = bucket.back();
  }

  std::vector<NodeId> run() {  // a bucket is represented by its first member
    const NodeDependencies dependencies(graph_);
    ById<NodeId, int> edges(graph_.nodes.size(), 0);
    ById<NodeId, std::vector<NodeId>> next(graph_.nodes.size());
    std::size_t units = 0;
    for (NodeId n : graph_.nodes.ids()) {
      units += first_[n] == n;
      for (NodeId to : dependencies.successors[n]) next[first_[n]].push_back(first_[to]), ++edges[first_[to]];
    }
    using Key = std::pair<NodeId, NodeId>;  // position; node
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    for (NodeId n : graph_.nodes.ids())
      if (first_[n] == n && edges[n] == 0) ready.emplace(last_[n], n);
    std::vector<NodeId> sorted;
    while (!ready.empty()) {
      const NodeId n = ready.top().second;
      ready.pop();
      sorted.push_back(n);
      for (NodeId to : next[n])
        if (--edges[to] == 0) ready.emplace(last_[to], to);
    }
    if (sorted.size() < units) sorted.clear();
    return sorted;
  }

 private:
  const Graph& graph_;
  ById<NodeId, NodeId> first_;  // by member: the first member of its bucket
  ById<NodeId, NodeId> last_;   // by first member of a bucket: the last member
};

class BucketRewriter {
 public:
  BucketRewriter(const Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops), rewrite_(graph) {}

  Graph run(const std::vector<NodeId>& sorted, const std::vector<Bucket>& buckets) {
    std::map<NodeId, const Bucket*> bucket_of_first;
    for (const Bucket& bucket : buckets) bucket_of_first[bucket.front()] = &bucket;
    for (NodeId n : sorted) {
      if (auto found = bucket_of_first.find(n); found != bucket_of_first.end()) join(*found->second);
      else rewrite_.keep(n);
    }
    return rewrite_.finish();
  }

 private:
  ValueId add(const char* op, std::vector<ValueId> inputs, Attrs attrs, const TensorType& type, Layout layout,
              NodeId source) {
    const int mesh = graph_.value(operand(graph_, source)).mesh;
    const NodeId node =
        rewrite_.add(&ops_.at(op), std::move(inputs), std::move(attrs), std::span(&type, 1), mesh, source);
    const ValueId result = rewrite_.graph().node(node).outputs[0];
    rewrite_.graph().value(result).layout = std::move(layout);
    return result;
  }
  ValueId reshaped(ValueId value, const Shape& shape, NodeId source) {
    const TensorType type = rewrite_.graph().type(value);
    if (type.shape == shape) return value;
    return add("reshape", {value}, Attrs().set("shape", shape), {type.dtype, shape},
               *rewrite_.graph().value(value).layout, source);
  }

  void join(const Bucket& bucket) {
    const NodeId first = bucket.front();
    const Layout old_layout = *graph_.value(operand(graph_, first)).layout,
                 new_layout = *graph_.value(graph_.node(first).outputs[0]).layout;
    std::vector<ValueId> flat_values;
    std::int64_t count = 0;
    for (NodeId box : bucket) {
      const std::int64_t member_size = graph_.type(operand(graph_, box)).count();
      flat_values.push_back(reshaped(rewrite_.at(operand(graph_, box)), {member_size}, box));
      count += member_size;
    }
    const TensorType type{graph_.type(operand(graph_, first)).dtype, {count}};
    const ValueId concatenated = add("concat", std::move(flat_values), Attrs().set("axis", 0), type, old_layout, first);
    const ValueId sum = add("box", {concatenated}, graph_.node(first).attrs, type, new_layout, first);
    std::int64_t begin = 0;
    for (NodeId box : bucket) {
      const TensorType& member_type = graph_.type(operand(graph_, box));
      const ValueId part = add("slice", {sum}, Attrs().set("begin", Ints{begin}).set("size", Ints{member_type.count()}),
                               {member_type.dtype, {member_type.count()}}, new_layout, box);
      rewrite_.map(graph_.node(box).outputs[0], reshaped(part, member_type.shape, box));
      begin += member_type.count();
    }
  }

  const Graph& graph_;
  const OpTable& ops_;
  Rewrite rewrite_;
};

std::vector<NodeId> candidates(const Graph& graph, const CostTable& costs) {
  std::vector<NodeId> out;
  for (NodeId n : graph.nodes.ids())
    if (may_join(graph, n, costs)) out.push_back(n);
  return out;
}

}  // namespace

std::vector<Bucket> buckets_of(const Graph& graph, const CostTable& costs, std::int64_t bytes) {
  const NodeDependencies dependencies(graph);
  std::map<BucketKey, OpenBucket> open_buckets;
  std::vector<Bucket> result;
  auto close = [&](OpenBucket& open_bucket) {
    if (open_bucket.members.size() > 1) result.push_back(std::move(open_bucket.members));
    open_bucket = {};
  };
  for (NodeId n : candidates(graph, costs)) {
    if (bytes_of(graph, n) > bytes) continue;
    OpenBucket& open_bucket = open_buckets[bucket_key(graph, n)];
    if (!open_bucket.members.empty() && (open_bucket.bytes + bytes_of(graph, n) > bytes || open_bucket.descendants[n]))
      close(open_bucket);
    open_bucket.add(graph, dependencies, n);
  }
  for (auto& [kind, open_bucket] : open_buckets) close(open_bucket);
  std::sort(result.begin(), result.end());
  return result;
}

Graph merge_buckets(const Graph& graph, const OpTable& ops, const std::vector<Bucket>& buckets) {
  const std::vector<NodeId> sorted = BucketOrder(graph, buckets).run();
  return sorted.empty() ? graph : BucketRewriter(graph, ops).run(sorted, buckets);
}

BucketedGraph bucket(Graph graph, const OpTable& ops, const CostTable& costs, int slots) {
  std::int64_t total_bytes = 0;
  for (NodeId n : candidates(graph, costs)) total_bytes += bytes_of(graph, n);
  if (buckets_of(graph, costs, total_bytes).empty()) return {std::move(graph)};
  BucketedGraph best;
  best.seconds_before = order(graph, ops, costs, slots).seconds;
  best.seconds = max_time_ratio * best.seconds_before;
  std::vector<Bucket> previous;
  for (std::int64_t bytes = total_bytes; bytes > 0; bytes /= 2) {
    std::vector<Bucket> buckets = buckets_of(graph, costs, bytes);
    if (buckets.empty()) break;
    if (buckets == previous) continue;
    Graph merged = merge_buckets(graph, ops, buckets);
    const double seconds = order(merged, ops, costs, slots).seconds;
    if (seconds < best.seconds) best.graph = std::move(merged), best.bytes = bytes, best.seconds = seconds;
    previous = std::move(buckets);
  }
  if (best.bytes == 0) best.graph = std::move(graph), best.seconds = best.seconds_before;
  return best;
}

}  // namespace karez::passes
