// ExpressionPlanCache: the plans that a world caches for computations outside of compiled functions.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace karez {

struct ExpressionPlan;  // a function that runs programs of one structure, see expression_plans.h

// The world owns the cache, so the cached functions must not keep the world alive.
struct ExpressionPlanCache {
  struct Entry {
    std::string key;  // describes the structure of the program
    std::shared_ptr<ExpressionPlan> plan;
    std::int64_t bytes = 0;  // that the program needs between calls; equal on every rank
  };
  std::mutex mutex;            // held while a program is assembled and called
  std::vector<Entry> entries;  // the most recently used last
  std::int64_t compiled = 0;   // number of programs compiled since the world was created
};

}  // namespace karez
