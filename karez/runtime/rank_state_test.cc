// Tests of the encoding of rank states.
#include "karez/runtime/rank_state.h"

#include <gtest/gtest.h>

#include <random>

namespace karez::runtime {
namespace {

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
