// canonicalise: what needs no device to be known.
#include "passes/canonicalise.h"

#include <map>

#include "passes/rewrite.h"

namespace karez {

int remove_dead(Compilation& c) {
  const Graph& graph = c.graph;
  std::vector<bool> needed(graph.nodes.size(), false);
  auto need = [&](ValueId value) { needed[static_cast<std::size_t>(graph.value(value).producer.index)] = true; };
  for (const Output& output : graph.outputs) need(output.value);
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid()) continue;
    need(variable.updated);
    if (variable.read.valid()) need(variable.read);  // its place is where the new version goes
  }
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    if (needed[n])
      for (ValueId in : graph.nodes[n].inputs) need(in);
  int removed = 0;
  Rewrite rewrite(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) needed[n] ? (void)rewrite.keep(NodeId(n)) : (void)++removed;
  if (removed > 0) c.graph = rewrite.finish();
  return removed;
}

void canonicalise(Compilation& c) { remove_dead(c); }

}  // namespace karez
