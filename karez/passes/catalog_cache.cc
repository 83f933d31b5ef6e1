// Implements CatalogCache.
#include "karez/passes/catalog_cache.h"

#include <utility>

#include "karez/plan/call_key.h"

namespace karez::passes {

std::optional<KernelChoice> CatalogCache::find(const CallSpec& call) const {
  std::string key = plan::call_key(call);
  const auto known = choices_.find(key);
  if (known != choices_.end()) return known->second;
  return choices_.emplace(std::move(key), catalog_.find(call)).first->second;
}

std::optional<CallSpec> CatalogCache::suggest(const CallSpec& call) const {
  std::string key = plan::call_key(call);
  const auto known = suggestions_.find(key);
  if (known != suggestions_.end()) return known->second;
  return suggestions_.emplace(std::move(key), catalog_.suggest(call)).first->second;
}

}  // namespace karez::passes
