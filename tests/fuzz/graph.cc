// Any text as a graph: refused with an Error, or what it prints as reads back to the same text; verified and sharded
// without harm.
#include "karez/ops/all_ops.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {
namespace {

// What a verified graph is asked next; few nodes, since the list of shardings grows with the letters of each.
void exercise(const Graph& graph) {
  for (std::size_t n = 0; n < graph.nodes.size() && n < 16; ++n) {
    NodeView node{&graph, NodeId(n)};
    try {
      for (const Sharding& sharding : shardings(node, 2)) print(sharding);
    } catch (const Error&) {}
  }
}

}  // namespace

void fuzz_graph(std::string_view bytes) {
  static const OpTable ops = all_ops();
  Graph graph;
  try {
    graph = parse_graph(bytes, ops);
  } catch (const Error&) { return; }
  std::string text = print(graph);
  try {
    check_invariant(print(parse_graph(text, ops)) == text, "a printed graph reads back as another");
  } catch (const Error&) { throw InvariantViolation{"a printed graph is refused"}; }
  try {
    verify(graph);
  } catch (const Error&) { return; }
  exercise(graph);
}

}  // namespace karez::tests
