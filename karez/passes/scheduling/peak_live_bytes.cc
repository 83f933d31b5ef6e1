// Computes peak live bytes in a sweep over the nodes of each placement.
#include "karez/passes/scheduling/peak_live_bytes.h"

#include <algorithm>

#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/readers.h"
#include "karez/passes/sharding/device_cost.h"

namespace karez::passes {

std::int64_t peak_live_bytes(const Graph& graph) {
  const auto uses = uses_of(graph);
  // By placement and node: the bytes that become live at the node, minus the bytes last read at the previous node.
  std::vector<std::vector<std::int64_t>> change_by_mesh(graph.meshes.size(),
                                                        std::vector<std::int64_t>(graph.nodes.size() + 1, 0));
  for (ValueId v : graph.values.ids()) {
    const NodeId maker = graph.value(v).producer;
    const Role role = graph.node(maker).op->role;
    if (may_alias(graph.node(maker)) || role == Role::state || role == Role::constant || role == Role::source ||
        role == Role::update)
      continue;
    std::set<NodeId> readers;
    collect_readers(graph, uses, v, readers);
    const NodeId last = readers.empty() ? maker : *readers.rbegin();
    auto& changes = change_by_mesh[static_cast<std::size_t>(graph.value(v).mesh)];
    const std::int64_t bytes = largest_part(graph, v);
    changes[static_cast<std::size_t>(maker.index)] += bytes;
    changes[static_cast<std::size_t>(last.index) + 1] -= bytes;
  }
  std::int64_t peak = 0;
  for (const auto& changes : change_by_mesh) {
    std::int64_t live = 0;
    for (std::int64_t bytes : changes) peak = std::max(peak, live += bytes);
  }
  return peak;
}

}  // namespace karez::passes
