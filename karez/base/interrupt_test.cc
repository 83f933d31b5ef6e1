// Tests of interrupt scopes.
#include "karez/base/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace karez::base {
namespace {

TEST(Interrupt, WorkCallsTheCheckAtIntervalsAndEndsByItsException) {
  int requested = 0, turns = 0;
  auto work = [&] {
    InterruptScope scope([&] {
      if (++requested == 3) throw std::runtime_error("enough");
    });
    for (;; ++turns) check_interrupt();
  };
  EXPECT_THROW(work(), std::runtime_error);
  EXPECT_EQ(requested, 3);
  EXPECT_GT(turns, 3) << "the check is not called in every iteration";
}

TEST(Interrupt, OnlyTheInnermostScopeIsChecked) {
  int outer = 0, inner = 0;
  auto until = [](int& count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (count == 0 && std::chrono::steady_clock::now() < end) check_interrupt();
  };
  InterruptScope first([&] { ++outer; });
  {
    InterruptScope second([&] { ++inner; });
    until(inner);
    EXPECT_EQ(outer, 0);
  }
  until(outer);
  EXPECT_GE(outer, 1);
  InterruptScope none({});
  check_interrupt();
}

}  // namespace
}  // namespace karez::base
