// Waits between actors, derived from the ports of actors that cannot act, for errors and reports.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/ports.h"

namespace karez::plan {

struct Wait {
  ActorId waiter, awaited;  // session_actor: the session
  std::string what;         // "r3 to be filled", "a free slot of r3", "turn 2 of communicator 0"
};

// Returns the waits of an actor, derived from its ports. An actor that is ready or running has none.
std::vector<Wait> waits_of(const Plan& plan, ActorId actor, const Ports& ports);

// True if the actor is idle: not running, without filled slots, and not within a period.
bool is_idle(const Ports& ports);

std::string actor_name(const Plan& plan, ActorId actor);  // "a3 'compute.1'", "the session"
std::string print(const Plan& plan, std::span<const Wait> waits);

// "a1 'x' waits for a free slot of r2 -> a2 'y' waits for r1 to be filled -> a1 'x'", or "" if the waits form no cycle.
std::string cycle_text(const Plan& plan, std::span<const Wait> waits);

}  // namespace karez::plan
