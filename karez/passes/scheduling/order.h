// order: computes a total order of the boxed graph, the stream of each node, and control edges from the readers of a
// variable to its writer.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct OrderedGraph {
  Graph graph;  // nodes in the total order, with control edges
  Streams stream;
  double seconds = 0,
         traced_seconds =
             0;  // predicted duration of a launch in this order and in the traced order; 0 if nothing crosses devices
};

// Keeps the traced order, or sorts by cost (list_schedule.h). The order by cost is used if its launch is at least one
// hundredth shorter when one representative device of each placement runs its segments (launch_simulation.h), and if
// its share of saved time is at least its share of additional peak bytes (peak_live_bytes.h). In both orders, nodes
// that act for micro-batches come after the nodes that all micro-batches read and before the nodes that wait for all of
// them, and updates come last, together. With only one compute stream, every order takes the same time, and the traced
// order is kept.
// Microseconds of a launch in both orders, by the default cost table (`./dev bench order`):
//   cnn  data=2,model=2               1825 ->   1802
//   gpt  stage=2                    435577 -> 403589
//   gpt  stage=2, 4 micro-batches   418459 -> 385003
// Nodes that may fail because of their data come before the writes (write_gate.h).
OrderedGraph order(Graph graph, const OpTable& ops, const CostTable& costs, int streams_meet, bool check_nan = false);

}  // namespace karez::passes
