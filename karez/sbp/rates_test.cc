// Tests of the choice of the rate that applies to given work.
#include "karez/sbp/rates.h"

#include <gtest/gtest.h>

#include <set>

namespace karez::sbp {
namespace {

std::string rate_name_of(const Work& work) { return std::string(rate_name(rate_of(work))); }

TEST(Rates, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < rate_count; ++i) {
    EXPECT_EQ(find_rate(rate_name(i)), i);
    names.insert(rate_name(i));
  }
  EXPECT_EQ(names.size(), rate_count);
  EXPECT_EQ(find_rate("matmul"), rate_count);
  EXPECT_EQ(find_rate(""), rate_count);
}

TEST(Rates, AProductIsClassifiedByItsSmallestExtentAndItsOperations) {
  EXPECT_EQ(rate_name_of({WorkClass::matmul, 1e9, 1, 1}), "matmul.vector");
  EXPECT_EQ(rate_name_of({WorkClass::matmul, 1e9, 1, 4}), "matmul.thin");
  EXPECT_EQ(rate_name_of({WorkClass::matmul, 1e9, 1, 15}), "matmul.thin");
  EXPECT_EQ(rate_name_of({WorkClass::matmul, 1 << 20, 1, 16}), "matmul.small");
  EXPECT_EQ(rate_name_of({WorkClass::matmul, (1 << 20) + 1, 1, 16}), "matmul.square");
}

TEST(Rates, AConvolutionIsClassifiedByItsChannels) {
  EXPECT_EQ(rate_name_of({WorkClass::conv, 1, 1, 4}), "conv.few");
  EXPECT_EQ(rate_name_of({WorkClass::conv, 1, 1, 5}), "conv.some");
  EXPECT_EQ(rate_name_of({WorkClass::conv_input, 1, 1, 8}), "conv_input.some");
  EXPECT_EQ(rate_name_of({WorkClass::conv_weight, 1, 1, 9}), "conv_weight.many");
}

TEST(Rates, MemoryBoundWorkIsClassifiedByTheCacheThatHoldsItsBytes) {
  EXPECT_EQ(rate_name_of({WorkClass::memory, 0, 32 << 10}), "pointwise.l1");
  EXPECT_EQ(rate_name_of({WorkClass::reduce, 0, (32 << 10) + 1}), "reduce.l2");
  EXPECT_EQ(rate_name_of({WorkClass::pool, 0, 1 << 20}), "pool.l2");
  EXPECT_EQ(rate_name_of({WorkClass::index, 0, (1 << 20) + 1}), "index.l3");
  EXPECT_EQ(rate_name_of({WorkClass::move, 0, 16 << 20}), "move.l3");
  EXPECT_EQ(rate_name_of({WorkClass::update, 0, 1e9}), "update.memory");
  EXPECT_EQ(rate_of({WorkClass::none, 1, 1}), rate_count);
}

}  // namespace
}  // namespace karez::sbp
