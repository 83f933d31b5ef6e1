// Tests of the encoding of rank states.
#include "karez/runtime/rank_state.h"

#include <gtest/gtest.h>

#include <random>

namespace karez::runtime {
namespace {

TEST(RankState, AWaitForADataSetIsNoWaitForARank) {
  RankState state;
  EXPECT_EQ(state.first_wait(), nullptr);
  state.waits = {{RankWait::data, "stage map of a data set"}};
  state.data_seconds = 12.345;
  EXPECT_FALSE(state.waits_for_rank());
  EXPECT_EQ(decode_state(encode(state, 1000)), state);
  state.waits.insert(state.waits.begin(), {{1, "a5 'sum', r9"}, {RankWait::others, "a barrier"}});
  EXPECT_TRUE(state.waits_for_rank());
  EXPECT_EQ(state.first_wait(), &state.waits[2]);
  EXPECT_EQ(state.waits[0].text(), "rank 1: a5 'sum', r9");
  EXPECT_EQ(state.waits[1].text(), "the others: a barrier");
  EXPECT_EQ(state.waits[2].text(), "stage map of a data set");
  state.waits.pop_back();
  EXPECT_EQ(state.first_wait(), &state.waits[0]);
}

TEST(RankState, ADecodedStateEqualsTheEncodedOneAndLongStatesAreTruncated) {
  RankState state{7, true, "a3 'x'\nof launch 7", {{2, "a5 'sum', r9"}, {RankWait::others, "a barrier"}}};
  const RankState decoded = decode_state(encode(state, 1000));
  state.current_call = "a3 'x' of launch 7";
  EXPECT_EQ(decoded, state);
  for (std::size_t max_bytes = 0; max_bytes < 60; ++max_bytes) {
    const std::string text = encode(state, max_bytes);
    EXPECT_LE(text.size(), max_bytes);
    EXPECT_LE(decode_state(text).waits.size(), 2u);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>("0123 -\nx\xff\x00"[random() % 10]);
    decode_state(bytes);
  }
}

}  // namespace
}  // namespace karez::runtime
