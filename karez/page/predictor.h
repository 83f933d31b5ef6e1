// What a plan's acts and its launch are predicted to last. A plan has calls and no longer the ops they came from, so
// prices are read off the calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/graph/op.h"
#include "karez/kernels/kernel.h"
#include "karez/page/namespace.h"
#include "karez/plan/plan.h"
#include "karez/runtime/simulator.h"
#include "karez/sbp/cost.h"

namespace karez::page {

// In one sentence for each kind of act, for help texts.
extern const char* const prediction_method;

// Bytes a call reads and writes: of each operand the distinct ones (a value that is broadcast by a stride of 0 counts
// once). No workspace.
double bytes_touched(const Call& call);

// Seconds by the cost table of the rates; a kernel that no row names is priced by its bytes.
class Predictor {
 public:
  explicit Predictor(CostTable costs);
  double call(const Call& call) const;
  double act(const Plan& plan,
             ActorId actor) const;  // of a collective its member's own part, from the arrival of the last
  ById<ActorId, double> acts(const Plan& plan)
      const;  // of all; a collective's members last as long as the longest: a receiver waits for its sender
  const CostTable& costs() const { return costs_; }

 private:
  double act(const Plan& plan, ActorId actor, int transfer) const;
  double collective(const Plan& plan, ActorId actor, int transfer) const;
  CostTable costs_;
  KernelTable kernels_;
  OpTable ops_;
};

// By collective actor, which of the plan's transfers it is a part of; -1 where none fits. Transfers and collectives
// stand in the same order and both begin with the line they came from.
std::vector<int> transfer_indices(const Plan& plan);

// The name by which a cost table knows its links.
std::string_view link_axis(const Transfer& transfer);

// The table that the plan keeps; without one the defaults, which say so.
CostTable costs_of(const Plan& plan);

// Launches of a plan in virtual time. Whatever tells of a plan's times has them from here.
struct Prediction {
  Predictor predictor;
  ById<ActorId, double> acts;  // seconds of each
  Simulation run;
  double seconds = 0;  // of a launch
};
// Of the options all but `duration` count. The plan must be sound.
Prediction predict(const Plan& plan, CostTable costs, SimulationOptions options = {});

}  // namespace karez::page
