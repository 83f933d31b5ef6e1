// The order pass: computes a total order of the boxed graph, the stream of each node, and control edges from the
// readers of a variable to its writer.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct OrderedGraph {
  Graph graph;  // nodes in the total order, with control edges
  Streams stream;
  // The predicted duration of a launch in this order and in the traced order. Both are 0 if no node crosses devices.
  double seconds = 0, traced_seconds = 0;
};

// Keeps the traced order, or sorts by cost (list_schedule.h). The order by cost is used if a simulated launch
// (launch_simulation.h) is more than 1 % shorter than in the traced order, and if the product of launch time and peak
// live bytes (peak_live_bytes.h) does not increase. With only one compute stream, every order takes the same time, and
// the traced order is kept.
//
// In both orders, the nodes that all micro-batches read come first, then the nodes that act for each micro-batch, then
// the nodes that wait for all micro-batches. Updates come last and are not separated by other nodes. Nodes that may
// fail because of their data come before the writes (write_gate.h). `max_slots` is the limit for slot_counts (slots.h).
//
// Predicted microseconds of a launch in the traced order -> in the order by cost, with the default cost table
// (`./dev bench order`):
//   cnn  data=2,model=2               1825 ->   1802
//   gpt  stage=2                    435577 -> 403589
//   gpt  stage=2, 4 micro-batches   418459 -> 385003
OrderedGraph order(Graph graph, const OpTable& ops, const CostTable& costs, int max_slots, bool check_nan = false);

}  // namespace karez::passes
