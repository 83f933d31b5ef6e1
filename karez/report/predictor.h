// Predicted times of a plan's acts and launches. A plan contains calls without their original ops, so prices are
// derived from the calls.
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

// A text for help pages: the method of prediction for each kind of act.
extern const char* const prediction_method;

// Returns the bytes that a call reads and writes: the distinct bytes of each operand (a value that is broadcast by a
// stride of 0 counts once), without the workspace.
double bytes_touched(const Call& call);

// Predicts seconds from the rates of the cost table; a kernel without a row is priced by its bytes.
class Predictor {
 public:
  explicit Predictor(CostTable costs);
  double call(const Call& call) const;
  double act(const Plan& plan,
             ActorId actor) const;  // for a collective: this member's part, from the arrival of the last member on
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

// Returns for each actor the index of the transfer that its collective belongs to; -1 if none matches. Transfers and
// collectives are in the same order, and the texts of both begin with their origin.
std::vector<int> transfer_indices(const Plan& plan);

// Returns the axis of a transfer, which is the name of its links in the cost table.
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
// Uses all options except `duration`. The plan must be valid.
Prediction predict(const Plan& plan, CostTable costs, SimulationOptions options = {});

}  // namespace karez::report
