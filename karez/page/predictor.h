// Predicted times of a plan's acts and launches. A plan contains calls without their original ops, so prices are
// derived from the calls.
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

// The method of prediction for each kind of act, for help texts.
extern const char* const prediction_method;

// The bytes that a call reads and writes: the distinct bytes of each operand (a value that is broadcast by a stride of
// 0 counts once), without the workspace.
double bytes_touched(const Call& call);

// Seconds by the rates of the cost table; a kernel without a row is priced by its bytes.
class Predictor {
 public:
  explicit Predictor(CostTable costs);
  double call(const Call& call) const;
  double act(const Plan& plan,
             ActorId actor) const;  // for a collective, the member's own part from the arrival of the last member
  ById<ActorId, double> acts(const Plan& plan) const;  // of all actors; members of a collective take as long as the
                                                       // slowest, since a receiver waits for its sender
  const CostTable& costs() const { return costs_; }

 private:
  double act(const Plan& plan, ActorId actor, int transfer) const;
  double collective(const Plan& plan, ActorId actor, int transfer) const;
  CostTable costs_;
  KernelTable kernels_;
  OpTable ops_;
};

// By actor, the index of the transfer that a collective belongs to; -1 if none matches. Transfers and collectives are
// in the same order, and the texts of both begin with their origin.
std::vector<int> transfer_indices(const Plan& plan);

// The axis name of its links in the cost table.
std::string_view link_axis(const Transfer& transfer);

// The cost table of the plan; without one the defaults, with an origin that states it.
CostTable costs_of(const Plan& plan);

// Launches of a plan in virtual time: the source of all reported times of a plan.
struct Prediction {
  Predictor predictor;
  ById<ActorId, double> acts;  // seconds of an act, by actor
  Simulation run;
  double seconds = 0;  // of a launch
};
// Uses all options except `duration`. The plan must be valid.
Prediction predict(const Plan& plan, CostTable costs, SimulationOptions options = {});

}  // namespace karez::page
