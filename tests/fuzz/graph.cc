// Fuzzes the graph parser with any text: it is rejected with an Error, or its printed text parses to the same text;
// verification and shardings of the graph must work.
#include "karez/ops/all_ops.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {
namespace {

// Computes shardings of a verified graph, of few nodes, because their number grows with the letters of the signature.
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
    check_invariant(print(parse_graph(text, ops)) == text, "a printed graph parses to a different graph");
  } catch (const Error&) { throw InvariantViolation{"a printed graph is rejected"}; }
  try {
    verify(graph);
  } catch (const Error&) { return; }
  exercise(graph);
}

}  // namespace karez::tests
