// What sets the pace of a plan: the cycle of waits that a launch after the other cannot beat.
#pragma once

#include <vector>

#include "karez/page/namespace.h"
#include "karez/plan/plan.h"
#include "karez/solve/slots.h"

namespace karez::page {

struct CriticalCycle {
  SlotCycle cycle;                           // over the actors below
  std::vector<std::vector<ActorId>> actors;  // by its number: the members of a collective; one; one of a collective,
                                             // for which its worker lets it in; none: the session
  std::vector<std::string> streams;          // by its number: "worker 0", "turns of communicator 1 on device 0.0"
  std::vector<RegisterId> registers;  // by its number; none: from a member's worker letting it in to the collective
};

// With `seconds` of an act, by actor. Every register's slots as the plan has them; a collective is one act of all its
// members; a worker does its acts in the order in which the simulator does, and a communicator its collectives by turn.
//
//   overlap false   a launch begins when the one before is over: the interval is the time of a launch
//   overlap true    a launch begins as soon as slots allow
CriticalCycle critical_cycle(const Plan& plan, const ById<ActorId, double>& seconds, bool overlap);

}  // namespace karez::page
