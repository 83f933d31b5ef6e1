// Fuzzes the graph parser with arbitrary text. The parser must reject the text with an Error, or the printed graph must
// parse to the same text. Verification and shardings of the graph may fail only with an Error.
#include "karez/graph/test_shardings.h"
#include "karez/ops/all_ops.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {
namespace {

// Computes the shardings of the first nodes of a verified graph. The number of nodes is limited, because the number of
// shardings grows quickly with the number of letters in a signature.
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
