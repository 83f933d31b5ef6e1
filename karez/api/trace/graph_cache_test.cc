// Tests of GraphCache: lookup by key, and its memory limit.
#include "karez/api/trace/graph_cache.h"

#include <gtest/gtest.h>

namespace karez {
namespace {

std::shared_ptr<const int> number(int value) { return std::make_shared<const int>(value); }

TEST(GraphCache, FindsGraphsByTheirCompleteKeys) {
  GraphCache<int> cache;
  EXPECT_EQ(cache.find("a"), nullptr);
  cache.add("a", number(1), 1);
  cache.add(std::string("a\0b", 3), number(2), 1);
  EXPECT_EQ(*cache.find("a"), 1);
  EXPECT_EQ(*cache.find(std::string("a\0b", 3)), 2);
  EXPECT_EQ(cache.find(std::string("a\0", 2)), nullptr);
  cache.add("a", number(3), 1);  // an equal graph
  EXPECT_EQ(*cache.find("a"), 1);
}

TEST(GraphCache, ForgetsAllGraphsBeyondItsLimit) {
  GraphCache<int> cache;
  constexpr std::size_t nodes = 20'000;  // three fit into 64 MiB
  for (int i = 0; i < 3; ++i) cache.add(std::to_string(i), number(i), nodes);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*cache.find(std::to_string(i)), i);
  cache.add("0", number(0), nodes);  // the same key again needs no more
  EXPECT_EQ(*cache.find("2"), 2);
  cache.add("3", number(3), nodes);
  EXPECT_EQ(cache.find("2"), nullptr);
  EXPECT_EQ(*cache.find("3"), 3);
}

TEST(GraphCache, KeepsNoGraphAboveItsLimit) {
  GraphCache<int> cache;
  cache.add("small", number(1), 1);
  cache.add("large", number(2), 70'000);
  EXPECT_EQ(cache.find("large"), nullptr);
  EXPECT_EQ(*cache.find("small"), 1);
  cache.add(std::string(std::size_t{65} << 20, 'x'), number(3), 1);
  EXPECT_EQ(*cache.find("small"), 1);
}

}  // namespace
}  // namespace karez
