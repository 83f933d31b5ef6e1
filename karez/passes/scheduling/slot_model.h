// A program's segments as a slot problem: the waits between successive launches, or between micro-batches of one
// launch.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"
#include "karez/solve/slots.h"

namespace karez::passes {

struct SlotRange {
  int min_slots = 1, max_slots = 1;
};
using SlotRanges = ById<ValueId, SlotRange>;  // by value, for the register that carries it

struct SlotModel {
  // What a register of the problem represents: a value, a variable between its update and the next launch's readers, or
  // a control edge.
  struct Edge {
    ValueId value = {};
    int variable = -1;
    NodeId later = {};  // for a control edge, the later node
  };
  solve::SlotProblem problem;
  std::vector<SegmentId> segment;  // by actor
  std::vector<Edge> edge;          // by register
  std::vector<int> mesh;           // by stream; all streams are compute streams
};

// Models successive launches. Each segment has its number of acts, and each variable is a register that is full when
// the launch begins. The model uses the total time of the acts of each stream, not their order.
SlotModel launch_model(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                       const SlotRanges& ranges);

// Models a steady state of micro-batches. Segments that act for each micro-batch act once; segments that act once per
// launch are left out. Segments that a stream can run one after another without a new wait are one actor. An example
// is an input gradient, for which another stage waits, and the weight gradient next to it. As one actor, the two may
// run in any order.
SlotModel micro_model(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                      const SlotRanges& ranges);

}  // namespace karez::passes
