// CatalogCache: the answers of a catalog during one compilation.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "karez/passes/namespace.h"
#include "karez/plan/catalog.h"

namespace karez::passes {

// Asks the catalog once for each distinct call. The layers of a model make equal calls, several passes look up each of
// them, and a lookup may take long: that of a product of matrices creates the library's kernel.
class CatalogCache : public KernelCatalog {
 public:
  explicit CatalogCache(const KernelCatalog& catalog) : catalog_(catalog) {}

  std::optional<KernelChoice> find(const CallSpec& call) const override;
  std::optional<CallSpec> suggest(const CallSpec& call) const override;
  std::string list(std::string_view op) const override { return catalog_.list(op); }

 private:
  const KernelCatalog& catalog_;
  mutable std::unordered_map<std::string, std::optional<KernelChoice>> choices_;
  mutable std::unordered_map<std::string, std::optional<CallSpec>> suggestions_;
};

}  // namespace karez::passes
