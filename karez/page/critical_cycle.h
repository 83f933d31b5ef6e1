// The critical cycle of a plan: the cycle of waits that determines the interval between launches.
#pragma once

#include <vector>

#include "karez/page/namespace.h"
#include "karez/plan/plan.h"
#include "karez/solve/slots.h"

namespace karez::page {

struct CriticalCycle {
  SlotCycle cycle;                           // over the actors below
  std::vector<std::vector<ActorId>> actors;  // by number: the members of a collective; one actor; one member of a
                                             // collective, when its worker starts it; none: the session
  std::vector<std::string> streams;          // by number: "worker 0", "turns of communicator 1"
  std::vector<RegisterId> registers;         // by number; invalid: from the start of a member to its collective
};

// `seconds`: of an act, by actor. Registers have the plan's slots; a collective is one act of all its members; a worker
// performs its acts in the order of the simulator, and a communicator its collectives by turn.
//
//   overlap false   a launch begins when the previous one has ended: the interval is the time of a launch
//   overlap true    a launch begins as soon as slots allow
CriticalCycle critical_cycle(const Plan& plan, const ById<ActorId, double>& seconds, bool overlap);

}  // namespace karez::page
