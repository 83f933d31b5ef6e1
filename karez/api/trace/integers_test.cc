// Tests of functions on bools and integers: values, dtypes and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace {
using namespace karez;
using ::testing::ElementsAre;
using ::testing::StartsWith;

HostArray bools(std::initializer_list<bool> values) {
  HostArray out({DType::b8, {static_cast<std::int64_t>(values.size())}});
  std::copy(values.begin(), values.end(), reinterpret_cast<bool*>(out.bytes()));
  return out;
}

// Returns the results of a function of two bools for all four pairs, computed on a mesh of two devices.
std::vector<std::int64_t> results_of(auto&& body, DType expected_dtype) {
  World world({.devices = 2});
  auto f = compile(world.mesh("data=2"), [&](Tensor x, Tensor y) {
    Tensor out = body(x, y);
    EXPECT_EQ(out.dtype(), expected_dtype);
    return cast(out, DType::i64);
  });
  HostArray out = f(bools({false, false, true, true}), bools({false, true, false, true})).value().read();
  return {out.data<std::int64_t>().begin(), out.data<std::int64_t>().end()};
}

TEST(Bools, ArithmeticAndComparisonsAreLogical) {
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return x + y; }, DType::b8), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return x * y; }, DType::b8), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return x < y; }, DType::b8), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return x <= y; }, DType::b8), ElementsAre(1, 1, 0, 1));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return x > y; }, DType::b8), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return x >= y; }, DType::b8), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return maximum(x, y); }, DType::b8), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return minimum(x, y); }, DType::b8), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return x + cast(y, DType::i32); }, DType::i32),
              ElementsAre(0, 1, 1, 2));
}

TEST(Bools, ExtremaSortsAndSelectionsKeepTheDtype) {
  EXPECT_THAT(results_of([](Tensor x, Tensor) { return broadcast_to(max(x), {1}); }, DType::b8), ElementsAre(1));
  EXPECT_THAT(results_of([](Tensor x, Tensor) { return broadcast_to(min(x), {1}); }, DType::b8), ElementsAre(0));
  EXPECT_THAT(results_of([](Tensor, Tensor y) { return sort(y, 0).values; }, DType::b8), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(results_of([](Tensor, Tensor y) { return argsort(y, 0); }, DType::i64), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(results_of([](Tensor, Tensor y) { return topk(y, 2, 0).indices; }, DType::i64), ElementsAre(1, 3));
  EXPECT_THAT(results_of([](Tensor x, Tensor) { return gather(x, iota({2}, 0, DType::i64) + 1); }, DType::b8),
              ElementsAre(0, 1));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return take_along(x, cast(y, DType::i64) * 3, 0); }, DType::b8),
              ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(results_of([](Tensor x, Tensor y) { return add_along(cast(x, DType::i64), y, 3, 0); }, DType::b8),
              ElementsAre(1, 1, 0));
}

TEST(Bools, MeaninglessOperationsNameAnAlternative) {
  const auto error_for = [](auto&& body) { return error_of([&] { results_of(body, DType::b8); }); };
  EXPECT_THAT(error_for([](Tensor x, Tensor y) { return x - y; }),
              StartsWith("sub: expected numbers, got bool[4] and bool[4]; use x != y to compare bools"));
  EXPECT_THAT(error_for([](Tensor x, Tensor) { return -x; }),
              StartsWith("neg: expected numbers, got bool[4]; use logical_not for bools"));
  EXPECT_THAT(error_for([](Tensor x, Tensor) { return relu(x); }),
              StartsWith("relu: expected numbers, got bool[4]; cast it first"));
  EXPECT_THAT(error_for([](Tensor x, Tensor y) { return pow(x, y); }),
              StartsWith("pow: expected numbers, got bool[4] and bool[4]; cast them first"));
}

TEST(Integers, PowersWrapAroundOnOverflowAndNegativePowersAreIntegers) {
  const auto powers = [](Tensor x, Tensor y) {  // -1 and 2 to the powers -1 and 3
    return pow(where(x, Term(2), Term(-1)), where(y, Term(3), Term(-1)));
  };
  EXPECT_THAT(results_of(powers, DType::i64), ElementsAre(-1, -1, 0, 8));
  EXPECT_THAT(results_of([](Tensor x, Tensor) { return pow(cast(x, DType::i32) * 3, 21); }, DType::i32),
              ElementsAre(0, 0, 1870418611, 1870418611));
  EXPECT_THAT(error_of([&] { results_of([](Tensor x, Tensor) { return pow(cast(x, DType::i32), -1); }, DType::i32); }),
              StartsWith("pow: i32[4] to the power -1 is not an integer; cast the base to a float first"));
  EXPECT_THAT(
      results_of([](Tensor x, Tensor y) { return relu(cast(x, DType::i32) - cast(y, DType::i32)); }, DType::i32),
      ElementsAre(0, 0, 1, 0));
}

}  // namespace
