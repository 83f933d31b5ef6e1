// Formats actors and counts for the error messages of the verifier.
#pragma once

#include <string>

#include "karez/plan/plan.h"

namespace karez::plan {

// "actor a3 'compute.1' (matmul at net.cc:12)"
inline std::string name_of_actor(const Plan& plan, ActorId i) {
  return cat("actor a", i, " '", plan.actors[i].name, "'",
             plan.actors[i].where.empty() ? "" : " (" + plan.actors[i].where + ")");
}

// "once", "3 times"
inline std::string times_text(std::int64_t count) { return count == 1 ? "once" : cat(count, " times"); }

}  // namespace karez::plan
