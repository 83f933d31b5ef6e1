// Simulates one launch without data, threads or time, with the engine's ports and priority rule. This proves that the
// plan completes, and gives the order of its acts.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

struct DryRun {
  std::vector<ActorId> order;  // every act of the launch, in the order in which a single worker runs them
  std::int64_t messages = 0;
};

// Token counts alone decide which actors can run. A plan that stalls in one order therefore stalls in every order, and
// one run proves that the plan never stalls. If `turns` is true, a collective waits for its turn and for the other
// members. If it is false, collectives run as soon as their ports are ready; the resulting order can define a
// communicator's sequence. Throws if the plan stalls, and lists the waits between actors, a cycle of waits first.
DryRun dry_run(const Plan& plan, bool turns = true);

}  // namespace karez::plan
