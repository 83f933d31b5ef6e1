// The maximum ratio of time to tokens over all cycles of a graph. For a synchronous dataflow program, this is the
// minimum interval between launches.
#pragma once

#include <span>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct TimedEdge {
  int from, to;
  double time;  // finite
  long tokens;  // >= 0
};

struct CycleRatio {
  double ratio = 0;        // time / tokens of the cycle; 0 if there is no cycle; +inf for a cycle without tokens
  std::vector<int> cycle;  // the edges of the cycle in order; empty if the graph has no cycle
  double time = 0;
  long tokens = 0;

  // True if the cycle has no tokens, so that none of its nodes can ever run.
  bool is_deadlock() const { return !cycle.empty() && tokens == 0; }
};

// Finds the cycle by policy iteration (Howard; Cochet-Terrasson et al., "Numerical computation of spectral elements in
// max-plus algebra", 1998). No cycle has a larger ratio than the returned one, except for rounding. Equal inputs give
// equal cycles.
CycleRatio max_cycle_ratio(int nodes, std::span<const TimedEdge> edges);

}  // namespace karez::solve
