// A program's segments as a slot problem: what waits for what between launches that follow each other, or between
// micro-batches of one.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"
#include "karez/solve/slots.h"

namespace karez::passes {

struct SlotRange {
  int least = 1, most = 1;
};
using SlotRanges = ById<ValueId, SlotRange>;  // of the registers that carry values between segments

struct SlotModel {
  // What a register of the problem stands for: a value, a variable's way from its update to the next launch's readers,
  // or a control edge.
  struct Edge {
    ValueId value = {};
    int variable = -1;
    NodeId then = {};  // of a control edge: the node that comes later
  };
  solve::SlotProblem problem;
  std::vector<SegmentId> segment;  // by actor
  std::vector<Edge> edge;          // by register
  std::vector<int> mesh;           // by stream, all of which are compute streams
};

// Segments at their rates, with variables as registers that are full when the launch begins. Of a stream the sum of its
// acts counts, not their order.
SlotModel launch_model(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                       const SlotRanges& ranges);

// A steady state of micro-batches: segments that act for each of them do so once, what acts once a launch is left out.
// Segments that a stream can do one behind the other without waiting for anything new, as a backward's input gradient,
// which the next stage waits for, and its weight gradient, are one actor: that leaves room for any order of the two.
SlotModel micro_model(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                      const SlotRanges& ranges);

}  // namespace karez::passes
