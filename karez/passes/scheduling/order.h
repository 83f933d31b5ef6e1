// order: one total order of the boxed graph, each node's stream, and control edges from readers of a variable to its
// writer.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True where the node that makes the variable's next version may write it over the old one: it reads the old version
// directly, declares the operand as in-place, and nobody else takes the new version in this step.
bool updates_in_place(const Graph& graph, const Variable& variable);
std::vector<bool> updates_in_place(const Graph& graph);  // of every variable

// True for changes of layout that move bytes between devices, and for transfers between placements.
bool crosses_devices(const Node& node);

// True for ops whose result may be a window on their operand's bytes.
bool may_alias(const Node& node);

struct OrderedGraph {
  Graph graph;  // nodes in the one total order, with control edges
  Streams stream;
  double seconds = 0,
         traced_seconds = 0;  // of a launch, predicted: in this order, and as traced; 0 where nothing crosses devices
};

// Nodes stand as traced, or by cost (list_schedule.h) where a launch so ordered ends sooner, by one hundredth at least,
// when one representative device of each placement runs its segments (collapsed.h), and by no smaller a share than it
// holds more bytes at once (peak_live_bytes.h). In both orders what acts for micro-batches stands between what comes
// before and behind them, and updates stand last, together. On one compute stream alone every order takes as long, and
// the traced one stays. Microseconds of a launch in both orders, by the default cost table (`./dev bench order`):
//   cnn  data=2,model=2   1825 -> 1802     gpt  stage=2   435577 -> 403589     gpt  stage=2, 4 micro-batches   418459
//   -> 385003
// What may fail by its data comes before the writes (write_gate.h).
OrderedGraph order(Graph graph, const OpTable& ops, const CostTable& costs, int streams_meet, bool check_nan = false);

}  // namespace karez::passes
