// Plans that were made before, by this process or another: a program that was planned once is read instead of planned
// again.
#pragma once

#include <string>

#include "karez/api/state/cache_folder.h"
#include "karez/passes/compilation.h"

namespace karez {

// A program is known by all that its plan depends on: the graph, the options (cost table, ranks, threads, limits), the
// build of Karez, its libraries and the instructions that they choose. With ops or kernels of the user's own nothing is
// kept, for nobody can tell when those change.
class PlanCache {
 public:
  PlanCache(std::string folder, bool own_rows);

  // passes::compile, or what it made of the same before. Then `c` has what is asked of a plan that is made: graph,
  // cost, report, plan; of the passes there is one, "cache". A plan from disk is verified; one that is damaged is made
  // anew.
  void compile(passes::Compilation& c);

 private:
  bool take(passes::Compilation& c, const std::string& key);

  CacheFolder folder_;
  std::string build_;  // and libraries; "": nothing is kept
};

std::string key_of(const std::string& build, const passes::Compilation& c);

}  // namespace karez
