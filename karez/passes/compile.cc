// Runs the pipeline and then, if there is a memory limit, the search for a variant that fits.
#include "karez/passes/compile.h"

#include <chrono>
#include <string>

#include "karez/passes/catalog_cache.h"
#include "karez/passes/memory_limit/fit_memory.h"
#include "karez/passes/pipeline.h"

namespace karez::passes {

namespace {

void compile_with_catalog(Compilation& c) {
  run_pipeline(c);
  if (c.options.memory == 0) return;
  const auto begin = std::chrono::steady_clock::now();
  fit_memory(c);
  verify(c.plan);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  c.passes.push_back({"fit_memory", seconds, c.options.keep_text ? print(c.plan) : std::string()});
}

template <class Action> void with_catalog_cache(Compilation& c, Action action) {
  const KernelCatalog* const catalog = c.catalog;
  const CatalogCache cache(*catalog);
  c.catalog = &cache;
  try {
    action(c);
  } catch (...) {
    c.catalog = catalog;
    throw;
  }
  c.catalog = catalog;
}

}  // namespace

void compile(Compilation& c) { with_catalog_cache(c, compile_with_catalog); }

void choose_layouts(Compilation& c) {
  with_catalog_cache(c, [](Compilation& cached) { run_pipeline_to(cached, "shard"); });
}

}  // namespace karez::passes
