// One box node as the Collective that a member runs, its communicator, and what it will send.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "passes/compilation.h"
#include "sbp/transition.h"

namespace karez::passes {

// The step that a box node stands for.
TransitionStep step_of(const Graph& graph, NodeId box);

// Communicators of one plan, made as they are asked for: one per mesh, axis and group of devices along it.
class Communicators {
 public:
  // They and their transfers are added to the plan.
  Communicators(const Compilation& c, Plan& plan) : c_(c), plan_(plan) {}
  // Everything but the operands of what the device does in this box node; `staging` bytes are an upper bound of what it needs.
  Collective collective(NodeId box, DeviceName device, const View& in, const View& out, std::int64_t& staging);
  void transfer(NodeId box);  // notes the bytes that this rank's devices will send

 private:
  CommunicatorId communicator(int on, int axis, const std::vector<int>& group);
  const Compilation& c_;
  Plan& plan_;
  std::map<std::tuple<int, int, int>, CommunicatorId> ids_;  // mesh, axis, first position of the group
};

}  // namespace karez::passes
