// One box node as the Collective that a member runs, its communicator, and what it will send.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/sbp/transition.h"

namespace karez::passes {

// The step that a box node stands for.
TransitionStep step_of(const Graph& graph, NodeId box);
// "all_reduce", "transfer": what a node of a comm stream is called in the plan.
std::string kind_of_transfer(const Node& node);

// Communicators of one plan, made as they are asked for: one per mesh, axis and group of devices along it, and one per
// pair of meshes between which values travel.
class Communicators {
 public:
  // They and their transfers are added to the plan.
  Communicators(const Compilation& c, Plan& plan) : c_(c), plan_(plan) {}
  // Everything but the operands of what the device does in this box or transfer node; `staging` bytes are an upper
  // bound of what it needs.
  Collective collective(NodeId box, DeviceName device, const View& in, const View& out, std::int64_t& staging);
  void transfer(NodeId box);  // notes the bytes that this rank's devices will send

 private:
  CommunicatorId communicator(NodeId node, std::vector<DeviceName> members);
  void note_transfer(NodeId node);
  Collective transfer_between(NodeId node, DeviceName device, std::int64_t& staging);
  const Compilation& c_;
  Plan& plan_;
  std::map<std::pair<CommunicatorKey, DeviceName>, CommunicatorId> ids_;  // with the first member of the group
};

}  // namespace karez::passes
