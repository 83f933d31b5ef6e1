// Tests of the errors of programs with micro-batches: programs that cannot be split, NaN, and invalid indices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <string_view>

#include "karez/karez.h"
#include "tests/microbatch_cases.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

template <class Body> std::string error_for(int m, Body body) {
  World world;
  auto step = compile(world.mesh(), body, {.microbatches = m});
  try {
    step.compile({{DType::f32, {64, 4}}});
  } catch (const Error& error) { return error.what(); }
  return "";
}

TEST(MicroBatches, AProgramThatCannotBeAccumulatedIsRejectedWithItsLine) {
  using ::testing::AllOf, ::testing::HasSubstr;
  EXPECT_EQ(error_for(3, [](Tensor x) { return sum(x); }),
            "microbatches=3 does not divide the batch of 64; nearest divisors: 2, 4");
  EXPECT_THAT(error_for(4, [](Tensor x) { return max(x, {0}); }),
              AllOf(HasSubstr("reduce_max at "), HasSubstr("microbatch_errors_test.cc:"),
                    HasSubstr("takes the max over the batch"), HasSubstr("'arg0'")));
  EXPECT_THAT(error_for(4,
                        [](Tensor x) {
                          Tensor y = matmul(x, full({4, 4}, 0.5));
                          return (y - mean(y, {0}, true)) * 2.0;
                        }),
              AllOf(HasSubstr("sub at "), HasSubstr("microbatch_errors_test.cc:"),
                    HasSubstr("which depends on reduce_sum at "), HasSubstr("statistics of a batch")));
  EXPECT_THAT(error_for(4,
                        [](Tensor x) {
                          return concat({x, x}, 0);
                        }),
              AllOf(HasSubstr("concat at "), HasSubstr("needs more of the batch")));
  EXPECT_THAT(error_for(2, [](Tensor) { return full({3}, 1.0); }), HasSubstr("has a batch"));
  World world;
  EXPECT_THROW(compile(world.mesh(), [](Tensor x) { return x; }, {.microbatches = 0}), Error);
}

// The check for NaN names the op that produced it in a micro-batch.
TEST(MicroBatches, TheOpThatProducedANanIsReported) {
  World world({.check_nan = true});
  auto f = compile(world.mesh(), [](Tensor x) { return sum(log(x)); }, {.microbatches = 4});
  HostArray x = HostArray::of<float>({8}, {1, 2, 3, 4, 5, -6, 7, 8});
  try {
    f(x).wait();
    FAIL();
  } catch (const Error& error) { EXPECT_THAT(error.what(), ::testing::HasSubstr("log at ")); }
}

// The reported position counts from the beginning of the batch, not of the micro-batch.
TEST(MicroBatches, AnInvalidIndexIsReportedWithItsPositionInTheBatch) {
  auto message = [](int m) -> std::string {
    World world;
    auto f = compile(world.mesh(), [](Tensor i) { return sum(one_hot(i, 3), {0}); }, {.microbatches = m});
    HostArray x = HostArray::of<std::int32_t>({8}, {0, 1, 2, 0, 1, 7, 0, 1});
    try {
      f(x).wait();
    } catch (const Error& error) { return error.what(); }
    return "";
  };
  EXPECT_THAT(message(4), ::testing::HasSubstr("[5]"));
}

}  // namespace
}  // namespace karez::tests
