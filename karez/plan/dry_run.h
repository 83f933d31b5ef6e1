// A launch without data, threads or time: the same ports and the same picking rule, to prove that a plan runs through
// and in which order.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

struct DryRun {
  std::vector<ActorId> order;  // every act of the launch, as one worker that serves all streams would do them
  std::int64_t messages = 0;
};

// Token counts alone decide what can run, so a plan that stalls in one order stalls in all, and one run proves it live.
// With `turns` a collective waits for its turn and for the other members; without, `order` is what a communicator's
// sequence can be read from. Throws on a stall: who waits for whom, the circle first.
DryRun dry_run(const Plan& plan, bool turns = true);

}  // namespace karez::plan
