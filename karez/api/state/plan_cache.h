// PlanCache: a cache of plans on disk, so that a program that any process has planned is not planned again.
#pragma once

#include <string>

#include "karez/api/state/cache_folder.h"
#include "karez/passes/compilation.h"

namespace karez {

// The key of a program contains everything that its plan depends on: the graph, the options (cost table, ranks,
// threads, limits), the build of Karez, its libraries and the instruction set that they choose. With user-defined ops
// or kernels nothing is cached, because changes of these cannot be detected.
class PlanCache {
 public:
  PlanCache(std::string folder, bool has_user_rows);

  // Calls passes::compile, or reads its result from the cache. A cached result contains only graph, cost, report and
  // plan, and its only pass is "cache". A plan from disk is verified; a damaged plan is made again.
  void compile(passes::Compilation& c);

 private:
  bool read(passes::Compilation& c, const std::string& key);

  CacheFolder folder_;
  std::string build_;  // identifies the build of Karez and its libraries; if empty, nothing is cached
};

std::string key_of(const std::string& build, const passes::Compilation& c);

}  // namespace karez
