// Tests of lowering slots: lowering ranges of registers at once gives the same result as lowering one register after
// another.
#include "karez/solve/slot_search.h"

#include <gtest/gtest.h>

#include <random>

namespace karez::solve {
namespace {

// A monotonic condition: each of several sums of slots is at least its limit.
struct Sums {
  std::vector<std::pair<std::vector<int>, int>> min_sums;
  bool is_satisfied(const std::vector<int>& slots) const {
    return std::all_of(min_sums.begin(), min_sums.end(), [&](const auto& row) {
      int sum = 0;
      for (int r : row.first) sum += slots[static_cast<std::size_t>(r)];
      return sum >= row.second;
    });
  }
};

TEST(SlotSearch, LoweringRangesGivesTheSameSlotsAsLoweringOneRegisterAfterTheOther) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const int count = 1 + static_cast<int>(random() % 12);
    std::vector<int> min_slots, max_slots, order;
    for (int r = 0; r < count; ++r) {
      min_slots.push_back(1 + static_cast<int>(random() % 2));
      max_slots.push_back(min_slots.back() + static_cast<int>(random() % 4));
      order.push_back(r);
    }
    std::shuffle(order.begin(), order.end(), random);
    Sums sums;
    for (int row = 0; row < 3; ++row) {
      std::vector<int> registers;
      int max_sum = 0;
      for (int r = 0; r < count; ++r)
        if (random() % 2 == 0) registers.push_back(r), max_sum += max_slots[static_cast<std::size_t>(r)];
      sums.min_sums.emplace_back(registers, max_sum - static_cast<int>(random() % 6));
    }
    std::vector<int> one_by_one = max_slots, by_ranges = max_slots;
    for (int r : order)
      while (one_by_one[static_cast<std::size_t>(r)] > min_slots[static_cast<std::size_t>(r)]) {
        --one_by_one[static_cast<std::size_t>(r)];
        if (sums.is_satisfied(one_by_one)) continue;
        ++one_by_one[static_cast<std::size_t>(r)];
        break;
      }
    lower_each(order, min_slots, by_ranges, [&] { return sums.is_satisfied(by_ranges); });
    EXPECT_EQ(one_by_one, by_ranges) << "round " << round;
  }
}

TEST(SlotSearch, TheFewestSlotsAreFoundByBisection) {
  for (int sufficient : {1, 2, 500, 999, 1000}) {
    int tests = 0;
    EXPECT_EQ(fewest(1, 1000, [&](int slots) { return ++tests, slots >= sufficient; }), sufficient);
    EXPECT_LE(tests, sufficient == 1 ? 1 : 11);
  }
  std::vector<int> order{0, 1}, min_slots{2, 3}, slots{2, 3};
  lower_each(order, min_slots, slots, [] { return ADD_FAILURE() << "no slots can be lowered", true; });
}

TEST(SlotSearch, ARangeThatCanHaveItsMinimumIsTestedOnce) {
  std::vector<int> order(1000), min_slots(1000, 1), slots(1000, 2);
  for (int r = 0; r < 1000; ++r) order[static_cast<std::size_t>(r)] = r;
  int tests = 0;
  lower_each(order, min_slots, slots, [&] { return ++tests, true; });
  EXPECT_EQ(tests, 1);
  EXPECT_EQ(slots, min_slots);
  slots.assign(1000, 2), tests = 0;
  lower_each(order, min_slots, slots, [&] { return ++tests, slots[700] == 2; });
  EXPECT_LE(tests, 30);
  EXPECT_EQ(slots[700], 2);
  EXPECT_EQ(std::count(slots.begin(), slots.end(), 1), 999);
}

}  // namespace
}  // namespace karez::solve
