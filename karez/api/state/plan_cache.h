// PlanCache: a cache of plans on disk. A program that some process has already planned is not planned again.
#pragma once

#include <string>

#include "karez/api/state/cache_folder.h"
#include "karez/passes/compilation.h"

namespace karez {

// The key of a program contains everything that its plan depends on: the graph, the options (cost table, ranks,
// threads, limits), the build of Karez, its libraries and the instruction set that they choose. If there are
// user-defined ops or kernels, nothing is cached, because the cache cannot detect that their code has changed.
class PlanCache {
 public:
  PlanCache(std::string folder, bool has_user_rows);

  // Calls passes::compile, or reads its result from the cache. A cached result contains only graph, cost, report and
  // plan, and lists "cache" as its only pass. A plan from disk is verified; a damaged plan is made again.
  void compile(passes::Compilation& c);

  // Calls passes::choose_layouts, or reads its result, which is the graph, from the cache.
  void choose_layouts(passes::Compilation& c);

 private:
  bool may_cache(const passes::Compilation& c) const;
  bool read(passes::Compilation& c, const std::string& key);

  CacheFolder folder_;
  std::string build_;  // identifies the build of Karez and its libraries; if empty, nothing is cached
};

std::string key_of(const std::string& build, const passes::Compilation& c);

}  // namespace karez
