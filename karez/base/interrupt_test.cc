// Tests of interrupt scopes.
#include "karez/base/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace karez::base {
namespace {

TEST(Interrupt, TheCheckIsCalledAtIntervalsAndItsExceptionEndsTheComputation) {
  int checks = 0, iterations = 0;
  auto work = [&] {
    InterruptScope scope([&] {
      if (++checks == 3) throw std::runtime_error("enough");
    });
    for (;; ++iterations) check_interrupt();
  };
  EXPECT_THROW(work(), std::runtime_error);
  EXPECT_EQ(checks, 3);
  EXPECT_GT(iterations, 3) << "the check must not be called in every iteration";
}

TEST(Interrupt, OnlyTheInnermostScopeIsChecked) {
  int outer = 0, inner = 0;
  auto wait_for_call = [](int& count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (count == 0 && std::chrono::steady_clock::now() < end) check_interrupt();
  };
  InterruptScope first([&] { ++outer; });
  {
    InterruptScope second([&] { ++inner; });
    wait_for_call(inner);
    EXPECT_EQ(outer, 0);
  }
  wait_for_call(outer);
  EXPECT_GE(outer, 1);
  InterruptScope none({});
  check_interrupt();
}

TEST(Interrupt, NothingHappensWithoutAScope) { EXPECT_NO_THROW(check_interrupt()); }

}  // namespace
}  // namespace karez::base
