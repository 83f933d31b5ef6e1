// Builds a graph of one node from text, for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/base/text.h"
#include "karez/graph/test_shardings.h"
#include "karez/ops/all_ops.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

struct SingleNodeGraph {
  Graph graph;
  NodeId id;
  NodeView view() const { return {&graph, id}; }
};

// Adds arguments with types such as "f32[2, 3], f32[3]" to the graph; they are the operands.
inline std::vector<ValueId> arguments(Graph& graph, std::string_view types) {
  std::vector<ValueId> out;
  Scanner in(types, "types");
  while (!in.at_end()) {
    if (!out.empty()) in.expect(",");
    out.emplace_back(graph.values.size());
    graph.arguments.push_back(out.back());
    graph.values.push_back({.producer = {}, .output = 0, .type = parse_type(in), .mesh = 0, .layout = {}});
  }
  return out;
}

inline SingleNodeGraph single_node_graph(const OpTable& ops, std::string_view op, std::string_view types,
                                         std::string_view attrs) {
  SingleNodeGraph node;
  auto in = arguments(node.graph, types);
  Builder b(node.graph, ops);
  b.add(op, in, Attrs::parse(attrs.empty() ? "{}" : attrs));
  node.id = NodeId(0);
  return node;
}

inline std::string results_of(const SingleNodeGraph& node) {
  return join(node.view().out_types(), ", ", [](const TensorType& t) { return print(t); });
}

inline std::string shardings_of(const SingleNodeGraph& node, int size) {
  return join(shardings(node.view(), size), " | ", [](const Sharding& s) { return print(s); });
}

// Returns the error of constructing a node, or "".
inline std::string construction_error(const OpTable& ops, std::string_view op, std::string_view types,
                                      std::string_view attrs) {
  try {
    single_node_graph(ops, op, types, attrs);
    return "";
  } catch (const Error& error) { return error.what(); }
}

}  // namespace karez::ops
