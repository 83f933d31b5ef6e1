// Finds the critical cycle of a plan: the cycle of waits that determines the interval between launches.
#pragma once

#include <vector>

#include "karez/plan/plan.h"
#include "karez/report/namespace.h"
#include "karez/solve/slots.h"

namespace karez::report {

struct CriticalCycle {
  SlotCycle cycle;  // its indices refer to the lists below
  std::vector<std::vector<ActorId>>
      actors;                         // by number, one of: a single actor; all members of a collective; one member of
                                      // a collective, for the start of the collective by its worker; none (the session)
  std::vector<std::string> streams;   // by number: "worker 0", "turns of communicator 1"
  std::vector<RegisterId> registers;  // by number; invalid if a collective waits until a member starts
};

// `seconds` has the duration of an act of each actor. Registers have the plan's slots, and a collective is one act of
// all its members. A worker performs its acts in the order of the simulator, and a communicator performs its
// collectives in the order of their turns.
//
//   overlap false   a launch begins when the previous one has ended: the interval is the time of a launch
//   overlap true    a launch begins as soon as slots allow
CriticalCycle critical_cycle(const Plan& plan, const ById<ActorId, double>& seconds, bool overlap);

}  // namespace karez::report
