// An index of the actors that list a register among their ports, and of the consumers that a register names. It is
// sorted once and then queried for each operand.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

class PortIndex {
 public:
  explicit PortIndex(const Plan& plan) {
    for (ActorId a : plan.actors.ids()) {
      for (const Port& port : plan.actors[a].inputs) inputs_.emplace_back(port.reg, a);
      for (const Port& port : plan.actors[a].outputs) outputs_.emplace_back(port.reg, a);
    }
    for (RegisterId r : plan.registers.ids())
      for (ActorId c : plan.registers[r].consumers) consumers_.emplace_back(r, c);
    for (Pairs* pairs : {&inputs_, &outputs_, &consumers_}) std::sort(pairs->begin(), pairs->end());
  }
  bool has_input(ActorId actor, RegisterId reg) const { return has(inputs_, reg, actor); }
  bool has_output(ActorId actor, RegisterId reg) const { return has(outputs_, reg, actor); }
  bool has_consumer(RegisterId reg, ActorId actor) const { return has(consumers_, reg, actor); }

 private:
  using Pairs = std::vector<std::pair<RegisterId, ActorId>>;
  static bool has(const Pairs& pairs, RegisterId reg, ActorId actor) {
    return std::binary_search(pairs.begin(), pairs.end(), std::pair(reg, actor));
  }
  Pairs inputs_, outputs_, consumers_;
};

}  // namespace karez::plan
