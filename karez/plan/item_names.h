// Names of a plan's items for the errors of the verifier.
#pragma once

#include <string>

#include "karez/plan/plan.h"

namespace karez::plan {

// "actor a3 'compute.1' (matmul at net.cc:12)"
inline std::string name_of_actor(const Plan& plan, ActorId i) {
  return cat("actor a", i, " '", plan.actors[i].name, "'",
             plan.actors[i].where.empty() ? "" : " (" + plan.actors[i].where + ")");
}

}  // namespace karez::plan
