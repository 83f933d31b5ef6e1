// Tests of CatalogCache.
#include "karez/passes/catalog_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "karez/passes/namespace.h"

namespace karez::passes {
namespace {

// Counts the lookups, and answers with the text of the call.
struct CountingCatalog : KernelCatalog {
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    ++lookups;
    if (call.op == "missing") return std::nullopt;
    return KernelChoice{cat(print(call), " ", call.device, " ", call.team), 64};
  }
  std::optional<CallSpec> suggest(const CallSpec& call) const override {
    ++lookups;
    return call.op == "missing" ? std::nullopt : std::optional(call);
  }
  std::string list(std::string_view op) const override { return std::string(op); }
  mutable int lookups = 0;
};

CallSpec product() {
  CallSpec call;
  call.op = "matmul";
  call.in = {View(DType::f32, {8, 4}), View(DType::f32, {4, 6})};
  call.out = {View(DType::f32, {8, 6})};
  call.attrs.set("scale", 1.0);
  return call;
}

TEST(CatalogCache, AsksTheCatalogOnceForEqualCalls) {
  const CountingCatalog catalog;
  const CatalogCache cache(catalog);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache.find(product())->kernel, catalog.find(product())->kernel);
  EXPECT_EQ(catalog.lookups, 4) << "three direct lookups and one of the cache";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(print(*cache.suggest(product())), print(product()));
  EXPECT_EQ(catalog.lookups, 5);
}

TEST(CatalogCache, CachesThatNoKernelExists) {
  const CountingCatalog catalog;
  const CatalogCache cache(catalog);
  CallSpec call = product();
  call.op = "missing";
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(cache.find(call));
    EXPECT_FALSE(cache.suggest(call));
  }
  EXPECT_EQ(catalog.lookups, 2);
  EXPECT_EQ(cache.list("missing"), "missing");
}

TEST(CatalogCache, EveryFieldOfACallCounts) {
  std::vector<CallSpec> calls(14, product());
  calls[1].op = "product";
  calls[2].team = 2;
  calls[3].device = "opencl";
  calls[4].attrs.set("scale", 2.0);
  calls[5].attrs.set("scale", std::int64_t{1});
  calls[6].attrs.set("scale", "1");
  calls[7].attrs.set("scale", true);
  calls[8].attrs.set("scale", Ints{1});
  calls[9].attrs.set("transposed", false);
  calls[10].in[0].strides = {1, 8};
  calls[11].in[0].dtype = DType::f64;
  calls[12].out[0].shape = {6, 8};
  calls[13].in.pop_back();
  const CountingCatalog catalog;
  const CatalogCache cache(catalog);
  for (int round = 0; round < 2; ++round)
    for (const CallSpec& call : calls) {
      EXPECT_EQ(cache.find(call)->kernel, cat(print(call), " ", call.device, " ", call.team));
      EXPECT_EQ(print(*cache.suggest(call)), print(call));
    }
  EXPECT_EQ(catalog.lookups, 28) << "one lookup and one suggestion for each call";
}

}  // namespace
}  // namespace karez::passes
