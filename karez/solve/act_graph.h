// The graph of waits between the acts of one launch of a synchronous dataflow program with given slots, and its
// critical cycle.
#pragma once

#include "karez/solve/cycle_ratio.h"
#include "karez/solve/namespace.h"
#include "karez/solve/slots.h"

namespace karez::solve {

class ActGraph {
 public:
  // Checks the problem and throws an error if it is inconsistent.
  ActGraph(const SlotProblem& problem, const SlotLimits& limits);

  // Returns the cycle with the largest ratio of time to tokens, or the load of the busiest stream without order if this
  // load is larger. Each register must have at least `filled` slots.
  SlotCycle critical_cycle(std::span<const int> slots) const;

  std::int64_t pieces(int reg) const { return pieces_[reg]; }  // pieces of a register in one launch

 private:
  struct Wait {
    SlotCycle::WaitKind kind;
    int index;
  };
  struct WaitEdges {
    std::vector<TimedEdge> edges;
    std::vector<Wait> waits;
    bool backward = false;  // true if some edge has a negative number of tokens
  };
  void add(WaitEdges& to, int from, std::int64_t from_act, int next, std::int64_t next_act, double delay,
           Wait wait) const;
  void add_stream(int stream);
  SlotCycle cycle_of(const WaitEdges& all, const std::vector<int>& edges) const;

  const SlotProblem& problem_;
  std::vector<int> first_;  // by actor: the node of its first act
  std::vector<int> actor_;  // by node: its actor
  std::vector<std::int64_t> pieces_;
  WaitEdges fixed_;  // all edges except those for slots
  SlotCycle load_;   // the load of the busiest stream without order
};

}  // namespace karez::solve
