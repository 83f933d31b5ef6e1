// Who waits for whom: read off the ports of actors that cannot act, for errors and for people.
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

// What keeps an actor from acting, by its ports alone; nothing if it is ready or runs.
std::vector<Wait> waits_of(const Plan& plan, ActorId actor, const Ports& ports);

// Nothing is on its way through it: it does not run, holds no filled slot and is not in the midst of a period.
bool is_idle(const Ports& ports);

std::string actor_name(const Plan& plan, ActorId actor);  // "a3 'compute.1'", "the session"
std::string print(const Plan& plan, std::span<const Wait> waits);

// "a1 'x' waits for a free slot of r2 -> a2 'y' waits for r1 to be filled -> a1 'x'", or "" where the waits form no
// circle.
std::string cycle_text(const Plan& plan, std::span<const Wait> waits);

}  // namespace karez::plan
