// Tests of the elements that a stage has read and not emitted yet, against a map.
#include "karez/data/stages/held_inputs.h"

#include <gtest/gtest.h>

#include <map>

#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

TEST(HeldInputs, RandomReadsAndReleasesGiveTheOldestElementAndItsState) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    HeldInputs held;
    const std::int64_t begin = draw.below(3);
    StreamStateRef before = draw.chance(0.5) ? nullptr : stream_state({-1});
    held.reset(begin, before);
    std::map<std::int64_t, StreamStateRef> expected;  // the states before the elements held
    std::int64_t next = begin;
    const double reads = 0.3 + 0.1 * static_cast<double>(draw.below(5));
    for (int step = 0; step < 300; ++step) {
      if (expected.empty() || draw.chance(reads)) {
        const StreamStateRef after = stream_state({next});
        EXPECT_EQ(held.read(after), next);
        expected[next++] = std::exchange(before, after);
      } else {
        auto at = expected.begin();
        std::advance(at, draw.below(static_cast<std::int64_t>(expected.size())));
        held.release(at->first);
        expected.erase(at);
      }
      ASSERT_EQ(held.next(), next);
      ASSERT_EQ(held.oldest(), expected.empty() ? next : expected.begin()->first) << "seed " << seed;
      ASSERT_EQ(held.before_oldest(), expected.empty() ? before : expected.begin()->second) << "seed " << seed;
    }
  }
}

TEST(HeldInputs, AnElementThatIsHeldForLongKeepsNoOthers) {
  HeldInputs held;
  held.reset();
  const StreamStateRef first = stream_state({7});
  held.read(first);
  for (std::int64_t i = 1; i < 100'000; ++i) {
    const StreamStateRef state = stream_state({i});
    held.release(held.read(state));
    ASSERT_LE(held.entries(), 18u);
    ASSERT_LE(state.use_count(), 2) << "this variable, and the state before the next element";
  }
  EXPECT_EQ(held.oldest(), 0);
  held.release(0);
  EXPECT_EQ(held.oldest(), 100'000);
}

}  // namespace
}  // namespace karez::data
