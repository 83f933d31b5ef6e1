// One launch of a synchronous dataflow program, act by act: the graph of waits that given slots make, and its worst
// cycle.
#pragma once

#include "karez/solve/cycle_ratio.h"
#include "karez/solve/namespace.h"
#include "karez/solve/slots.h"

namespace karez::solve {

class ActGraph {
 public:
  // Checks the problem; an error says what does not fit.
  ActGraph(const SlotProblem& problem, const SlotLimits& limits);

  // The cycle with the largest ratio, or the load of a stream without order where that is more. At least `filled` slots
  // a register.
  SlotCycle critical_cycle(std::span<const int> slots) const;

  std::int64_t pieces(int reg) const { return pieces_[reg]; }  // in a launch

 private:
  struct Wait {
    SlotCycle::WaitKind kind;
    int index;
  };
  struct WaitEdges {
    std::vector<TimedEdge> edges;
    std::vector<Wait> waits;
    bool backward = false;  // some edge has less than no tokens
  };
  void add(WaitEdges& to, int from, std::int64_t from_act, int then, std::int64_t then_act, double delay,
           Wait wait) const;
  void add_stream(int stream);
  SlotCycle cycle_of(const WaitEdges& all, const std::vector<int>& edges) const;

  const SlotProblem& problem_;
  std::vector<int> first_;  // node of each actor's first act
  std::vector<int> actor_;  // of each node
  std::vector<std::int64_t> pieces_;
  WaitEdges fixed_;  // all but those for slots
  SlotCycle load_;   // of the busiest stream without order
};

}  // namespace karez::solve
