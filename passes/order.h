// order: one total order of the boxed graph, each node's stream, and control edges from readers of a variable to its writer.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

// True where the node that makes the variable's next version may write it over the old one: it reads the old version directly,
// declares the operand as in-place, and nobody else takes the new version in this step.
bool updates_in_place(const Graph& graph, const Variable& variable);

// True for changes of layout that move bytes between devices, and for transfers between placements.
bool crosses_devices(const Node& node);

// True for ops whose result may be a window on their operand's bytes.
bool may_alias(const Node& node);

struct Ordered {
  Graph graph;  // nodes in the one total order, with control edges
  Streams stream;
};
Ordered order(Graph graph, const OpTable& ops);

}  // namespace karez::passes
