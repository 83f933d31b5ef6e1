// Predicted times of a plan's acts and launches. A plan has calls instead of the original ops, so times are predicted
// from the calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/graph/op.h"
#include "karez/kernels/kernel.h"
#include "karez/plan/plan.h"
#include "karez/report/namespace.h"
#include "karez/runtime/simulator.h"
#include "karez/sbp/cost.h"

namespace karez::report {

// Text for help pages: how the time of each kind of act is predicted.
extern const char* const prediction_method;

// Predicts seconds from the rates of the cost table. The time of a kernel without a row is predicted from its bytes.
class Predictor {
 public:
  explicit Predictor(CostTable costs);
  double call(const Call& call) const;
  // For a collective, returns the time of this member's part after the last member has arrived; `transfer` is its entry
  // in transfer_indices.
  double act(const Plan& plan, ActorId actor, int transfer) const;
  ById<ActorId, double> acts(const Plan& plan) const;  // by actor; all members of a collective take as long as the
                                                       // slowest one, because a receiver waits for its sender
  const CostTable& costs() const { return costs_; }

 private:
  double collective(const Plan& plan, ActorId actor, int transfer) const;
  CostTable costs_;
  KernelTable kernels_;
  OpTable ops_;
};

// Returns, for each actor, the index of the transfer to which its collective belongs; -1 if there is none. Transfers
// and collectives are in the same order, and their texts begin with the same origin.
std::vector<int> transfer_indices(const Plan& plan);

// Returns the axis of a transfer, by which the cost table names its links.
std::string_view link_axis(const Transfer& transfer);

// Returns the cost table of the plan, or default costs with an origin that says so if the plan has no table.
CostTable costs_of(const Plan& plan);

// The simulated launches of a plan, from which all reported times of the plan are taken.
struct Prediction {
  Predictor predictor;
  ById<ActorId, double> acts;  // seconds of an act, by actor
  Simulation run;
  double seconds = 0;  // of a launch
};
// Simulates launches with all options except `duration`, which is predicted. The plan must be valid.
Prediction predict(const Plan& plan, CostTable costs, SimulationOptions options = {});

}  // namespace karez::report
