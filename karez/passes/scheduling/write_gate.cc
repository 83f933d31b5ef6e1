// Finds the nodes that may fail and adds control edges from them to writes of variables.
#include "karez/passes/scheduling/write_gate.h"

#include <algorithm>
#include <bit>
#include <map>

#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/node_dependencies.h"

namespace karez::passes {
namespace {

using Bits = std::uint64_t;
constexpr std::size_t batch_size = 64;  // nodes that may fail are handled in batches of this size, one bit each

class Gate {
 public:
  explicit Gate(Graph& graph)
      : graph_(graph),
        dependencies_(graph),
        order_(dependencies_.topological_order()),
        depends_on_write_(graph.nodes.size(), 0),
        leads_to_failing_(graph.nodes.size(), 0),
        precedes_acts_(graph.nodes.size(), 0) {
    for (const Variable& variable : graph.variables)
      if (variable.updated.valid() && variable.read.valid()) writers_.push_back(graph.value(variable.updated).producer);
    for (NodeId writer : writers_) depends_on_write_[writer] = 1;
    for (NodeId n : order_)
      if (depends_on_write_[n])
        for (NodeId after : dependencies_.successors[n]) depends_on_write_[after] = 1;
    for (auto n = order_.rbegin(); n != order_.rend(); ++n)
      for (NodeId after : dependencies_.successors[*n])
        if (precedes_acts_[after] || graph.node(after).acts > 1) precedes_acts_[*n] = 1;
  }

  void close(bool check_nan) {
    if (writers_.empty()) return;
    std::vector<NodeId> failing;
    for (NodeId n : order_)
      if (!depends_on_write_[n] &&
          (may_fail(graph_.node(n)) || (check_nan && graph_.node(n).op->role == Role::compute)))
        failing.push_back(n);
    ById<NodeId, char> may_fail_node(graph_.nodes.size(), 0);
    for (NodeId n : failing) may_fail_node[n] = 1;
    for (NodeId n : failing)
      leads_to_failing_[n] = std::any_of(
          dependencies_.successors[n].begin(), dependencies_.successors[n].end(),
          [&](NodeId after) { return may_fail_node[after] != 0 && graph_.node(after).acts == graph_.node(n).acts; });
    for (std::size_t begin = 0; begin < failing.size(); begin += batch_size)
      close(std::span(failing).subspan(begin, std::min(batch_size, failing.size() - begin)));
  }

 private:
  void close(std::span<const NodeId> failing) {
    // By node: the nodes of `failing` on which it depends, and those on which it depends through a collective.
    ById<NodeId, Bits> follows(graph_.nodes.size(), 0), through_collective(graph_.nodes.size(), 0);
    for (std::size_t i = 0; i < failing.size(); ++i) follows[failing[i]] |= Bits{1} << i;
    // By mesh and axis: the first collective after each node of `failing`, or an invalid id.
    std::map<std::pair<int, std::int64_t>, std::vector<NodeId>> first_collectives;
    for (NodeId n : order_) {
      if (!depends_on_write_[n] && is_collective(n)) {
        through_collective[n] |= follows[n];
        auto& first_of_failing = first_collectives[{mesh_of(graph_, n), graph_.node(n).attrs.integer("axis", 0)}];
        first_of_failing.resize(failing.size());
        for (Bits remaining = follows[n]; remaining != 0; remaining &= remaining - 1)
          if (NodeId& collective = first_of_failing[static_cast<std::size_t>(std::countr_zero(remaining))];
              !collective.valid())
            collective = n;
      }
      for (NodeId after : dependencies_.successors[n])
        follows[after] |= follows[n], through_collective[after] |= through_collective[n];
    }
    for (NodeId writer : writers_)
      for (std::size_t i = 0; i < failing.size(); ++i) {
        if ((follows[writer] >> i & 1) == 0 && !leads_to_failing_[failing[i]]) add_edge(failing[i], writer);
        if ((through_collective[writer] >> i & 1) != 0) continue;
        for (const auto& [key, first_of_failing] : first_collectives)
          if (key.first == mesh_of(graph_, writer) && first_of_failing[i].valid())
            add_edge(first_of_failing[i], writer);
      }
  }

  bool is_collective(NodeId n) const {
    return graph_.node(n).op->role == Role::transition && crosses_devices(graph_.node(n));
  }

  // A write cannot wait for acts of micro-batches that read its result.
  void add_edge(NodeId node, NodeId writer) {
    if (graph_.node(node).acts > 1 && precedes_acts_[writer]) return;
    auto& after = graph_.node(writer).after;
    if (std::find(after.begin(), after.end(), node) == after.end()) after.push_back(node);
  }

  Graph& graph_;
  const NodeDependencies dependencies_;
  const std::vector<NodeId> order_;
  std::vector<NodeId> writers_;
  ById<NodeId, char> depends_on_write_;  // true for a write, and for a node that depends on one
  ById<NodeId, char> leads_to_failing_;  // true if a direct successor may fail and acts equally often; the edges
                                         // from that successor to writes are enough for both nodes
  ById<NodeId, char> precedes_acts_;     // true if a node that acts more than once in a launch depends on this one
};

}  // namespace

bool may_fail(const Node& node) { return node.op->may_fail || node.op->indices || node.op->role == Role::source; }

void gate_writes(Graph& graph, bool check_nan) { Gate(graph).close(check_nan); }

}  // namespace karez::passes
