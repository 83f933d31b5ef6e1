// Tests of lowering slots: ranges at once give the same result as one register after the other.
#include "karez/solve/slot_search.h"

#include <gtest/gtest.h>

#include <random>

namespace karez::solve {
namespace {

// A monotonic condition: each of some sums of slots is at least its limit.
struct Sums {
  std::vector<std::pair<std::vector<int>, int>> least;
  bool hold(const std::vector<int>& slots) const {
    return std::all_of(least.begin(), least.end(), [&](const auto& row) {
      int sum = 0;
      for (int r : row.first) sum += slots[static_cast<std::size_t>(r)];
      return sum >= row.second;
    });
  }
};

TEST(SlotSearch, RangesAreLoweredAsOneRegisterAfterTheOther) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const int count = 1 + static_cast<int>(random() % 12);
    std::vector<int> least, most, order;
    for (int r = 0; r < count; ++r) {
      least.push_back(1 + static_cast<int>(random() % 2));
      most.push_back(least.back() + static_cast<int>(random() % 4));
      order.push_back(r);
    }
    std::shuffle(order.begin(), order.end(), random);
    Sums sums;
    for (int row = 0; row < 3; ++row) {
      std::vector<int> some;
      int all = 0;
      for (int r = 0; r < count; ++r)
        if (random() % 2 == 0) some.push_back(r), all += most[static_cast<std::size_t>(r)];
      sums.least.emplace_back(some, all - static_cast<int>(random() % 6));
    }
    std::vector<int> one = most, stretches = most;
    for (int r : order)
      while (one[static_cast<std::size_t>(r)] > least[static_cast<std::size_t>(r)]) {
        --one[static_cast<std::size_t>(r)];
        if (sums.hold(one)) continue;
        ++one[static_cast<std::size_t>(r)];
        break;
      }
    lower_each(order, least, stretches, [&] { return sums.hold(stretches); });
    EXPECT_EQ(one, stretches) << "round " << round;
  }
}

TEST(SlotSearch, TheFewestSlotsAreFoundByBisection) {
  for (int enough : {1, 2, 500, 999, 1000}) {
    int requested = 0;
    EXPECT_EQ(fewest(1, 1000, [&](int slots) { return ++requested, slots >= enough; }), enough);
    EXPECT_LE(requested, enough == 1 ? 1 : 11);
  }
  std::vector<int> order{0, 1}, least{2, 3}, slots{2, 3};
  lower_each(order, least, slots, [] { return ADD_FAILURE() << "no slots can be lowered", true; });
}

TEST(SlotSearch, ARangeThatCanHaveItsLeastIsTestedOnce) {
  std::vector<int> order(1000), least(1000, 1), slots(1000, 2);
  for (int r = 0; r < 1000; ++r) order[static_cast<std::size_t>(r)] = r;
  int requested = 0;
  lower_each(order, least, slots, [&] { return ++requested, true; });
  EXPECT_EQ(requested, 1);
  EXPECT_EQ(slots, least);
  slots.assign(1000, 2), requested = 0;
  lower_each(order, least, slots, [&] { return ++requested, slots[700] == 2; });
  EXPECT_LE(requested, 30);
  EXPECT_EQ(slots[700], 2);
  EXPECT_EQ(std::count(slots.begin(), slots.end(), 1), 999);
}

}  // namespace
}  // namespace karez::solve
