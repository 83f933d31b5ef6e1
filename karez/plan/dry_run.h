// A launch without data, threads or time, with the engine's ports and priority rule: it proves that a plan completes
// and finds the order of its acts.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

struct DryRun {
  std::vector<ActorId> order;  // every act of the launch, in the order of one worker that serves all streams
  std::int64_t messages = 0;
};

// Token counts alone decide which actors can run, so a plan that stalls in one order stalls in all, and one run proves
// that the plan is live. With `turns`, a collective waits for its turn and for the other members; without turns,
// `order` gives the order for a communicator's sequence. Throws on a stall, with the waits between actors, a cycle
// first.
DryRun dry_run(const Plan& plan, bool turns = true);

}  // namespace karez::plan
