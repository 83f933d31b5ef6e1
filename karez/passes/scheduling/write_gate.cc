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
constexpr std::size_t at_once = 64;  // nodes that may fail, a bit each

class Gate {
 public:
  explicit Gate(Graph& graph)
      : graph_(graph),
        dependencies_(graph),
        order_(dependencies_.topological_order()),
        written_(graph.nodes.size(), 0),
        leads_(graph.nodes.size(), 0),
        precedes_acts_(graph.nodes.size(), 0) {
    for (const Variable& variable : graph.variables)
      if (variable.updated.valid() && variable.read.valid()) writers_.push_back(graph.value(variable.updated).producer);
    for (NodeId writer : writers_) written_[writer] = 1;
    for (NodeId n : order_)
      if (written_[n])
        for (NodeId after : dependencies_.successors[n]) written_[after] = 1;
    for (auto n = order_.rbegin(); n != order_.rend(); ++n)
      for (NodeId after : dependencies_.successors[*n])
        if (precedes_acts_[after] || graph.node(after).acts > 1) precedes_acts_[*n] = 1;
  }

  void close(bool check_nan) {
    if (writers_.empty()) return;
    std::vector<NodeId> failing;
    for (NodeId n : order_)
      if (!written_[n] && (may_fail(graph_.node(n)) || (check_nan && graph_.node(n).op->role == Role::compute)))
        failing.push_back(n);
    ById<NodeId, char> may(graph_.nodes.size(), 0);
    for (NodeId n : failing) may[n] = 1;
    for (NodeId n : failing)
      leads_[n] =
          std::any_of(dependencies_.successors[n].begin(), dependencies_.successors[n].end(),
                      [&](NodeId after) { return may[after] != 0 && graph_.node(after).acts == graph_.node(n).acts; });
    for (std::size_t first = 0; first < failing.size(); first += at_once)
      close(std::span(failing).subspan(first, std::min(at_once, failing.size() - first)));
  }

 private:
  void close(std::span<const NodeId> failing) {
    ById<NodeId, Bits> follows(graph_.nodes.size(), 0),
        across(graph_.nodes.size(), 0);  // across: through a collective on its mesh
    for (std::size_t i = 0; i < failing.size(); ++i) follows[failing[i]] |= Bits{1} << i;
    std::map<std::pair<int, std::int64_t>, std::vector<NodeId>>
        first;  // by mesh and axis: the first collective after each of `failing`, or none
    for (NodeId n : order_) {
      if (!written_[n] && is_collective(n)) {
        across[n] |= follows[n];
        auto& firsts = first[{mesh_of(graph_, n), graph_.node(n).attrs.integer("axis", 0)}];
        firsts.resize(failing.size());
        for (Bits left = follows[n]; left != 0; left &= left - 1)
          if (NodeId& one = firsts[static_cast<std::size_t>(std::countr_zero(left))]; !one.valid()) one = n;
      }
      for (NodeId after : dependencies_.successors[n]) follows[after] |= follows[n], across[after] |= across[n];
    }
    for (NodeId writer : writers_)
      for (std::size_t i = 0; i < failing.size(); ++i) {
        if ((follows[writer] >> i & 1) == 0 && !leads_[failing[i]]) put_before(failing[i], writer);
        if ((across[writer] >> i & 1) != 0) continue;
        for (const auto& [where, firsts] : first)
          if (where.first == mesh_of(graph_, writer) && firsts[i].valid()) put_before(firsts[i], writer);
      }
  }

  bool is_collective(NodeId n) const {
    return graph_.node(n).op->role == Role::transition && crosses_devices(graph_.node(n));
  }

  // A write cannot wait for all acts of micro-batches that read its result.
  void put_before(NodeId node, NodeId writer) {
    if (graph_.node(node).acts > 1 && precedes_acts_[writer]) return;
    auto& after = graph_.node(writer).after;
    if (std::find(after.begin(), after.end(), node) == after.end()) after.push_back(node);
  }

  Graph& graph_;
  const NodeDependencies dependencies_;
  const std::vector<NodeId> order_;
  std::vector<NodeId> writers_;
  ById<NodeId, char> written_;        // a write, or after one
  ById<NodeId, char> leads_;          // to another node that may fail; its edges to writes are enough for both
  ById<NodeId, char> precedes_acts_;  // before a node that acts more than once in a launch
};

}  // namespace

bool may_fail(const Node& node) { return node.op->may_fail || node.op->indices || node.op->role == Role::source; }

void gate_writes(Graph& graph, bool check_nan) { Gate(graph).close(check_nan); }

}  // namespace karez::passes
