// Converts a box node to the Collective that each member runs, its communicator, and the transfer that the plan lists.
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

// Returns the transition step of a box node.
TransitionStep step_of(const Graph& graph, NodeId box);
// Returns the kind of collective that runs a node of a comm stream.
CollectiveKind kind_of_transfer(const Node& node);

// The communicators of one plan, each created when first needed: one for each mesh, axis and group of devices along the
// axis, and one for each pair of meshes with transfers.
class Communicators {
 public:
  // Communicators and transfers are added to `plan`.
  Communicators(const Compilation& c, Plan& plan) : c_(c), plan_(plan) {}
  // Returns the device's part in this box or transfer node, without operands. Sets `staging` to an upper bound of the
  // bytes of staging that the part needs.
  Collective collective(NodeId box, DeviceName device, const View& in, const View& out, std::int64_t& staging);
  void transfer(NodeId box);  // adds a transfer with the bytes that this rank's devices send

 private:
  CommunicatorId communicator(NodeId node, std::vector<DeviceName> members);
  void note_transfer(NodeId node);
  Collective transfer_between(NodeId node, DeviceName device, std::int64_t& staging);
  const Compilation& c_;
  Plan& plan_;
  std::map<std::pair<CommunicatorKey, DeviceName>, CommunicatorId> ids_;  // by key and first member of the group
};

}  // namespace karez::passes
