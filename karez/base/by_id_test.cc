// Tests of ById, a list that only ids of its key type can index.
#include "karez/base/by_id.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "karez/base/id.h"

namespace karez::base {
namespace {

using WellId = Id<struct WellTag>;
using TownId = Id<struct TownTag>;

template <class List, class Key>
concept Indexed = requires(List list, Key key) {
  list[key];
};

TEST(ById, TheIdThatAddReturnsFindsTheItem) {
  ById<WellId, std::string> names;
  WellId first = names.add("upper"), second = names.add("lower");
  EXPECT_EQ(names[first], "upper");
  EXPECT_EQ(names[second], "lower");
  names[second] = "mother";
  EXPECT_EQ(names.list(), (std::vector<std::string>{"upper", "mother"}));
}

TEST(ById, OtherIdTypesAndNumbersCannotIndexAList) {
  EXPECT_TRUE((Indexed<ById<WellId, int>, WellId>));
  EXPECT_FALSE((Indexed<ById<WellId, int>, TownId>));
  EXPECT_FALSE((Indexed<ById<WellId, int>, int>));
  EXPECT_FALSE((Indexed<ById<WellId, int>, std::size_t>));
}

TEST(ById, IdsListsAllIdsInOrder) {
  ById<WellId, int> depths(3, 7);
  int next = 0;
  for (WellId id : depths.ids()) {
    EXPECT_EQ(id.index, next++);
    EXPECT_EQ(depths[id], 7);
  }
  EXPECT_EQ(next, 3);
}

TEST(ById, HasIsFalseForInvalidAndTooLargeIds) {
  ById<WellId, bool> dry(2);
  EXPECT_TRUE(dry.has(WellId(1)));
  EXPECT_FALSE(dry.has(WellId(2)));
  EXPECT_FALSE(dry.has(WellId()));
}

}  // namespace
}  // namespace karez::base
