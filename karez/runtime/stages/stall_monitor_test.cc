// Tests of what is counted as a stall, and of when stalls are persistent.
#include "karez/runtime/stages/stall_monitor.h"

#include <gtest/gtest.h>

#include <vector>

namespace karez::runtime {
namespace {

using Event = StallMonitor::Event;

// A program that makes a launch after each read.
struct Program {
  StallMonitor monitor{100};
  std::int64_t now = 5000, launches = 0;
  Event read(std::int64_t stall, std::int64_t busy = 0) {
    now += stall + busy;
    return monitor.add(now, stall, launches++);
  }
  std::vector<Event> read_all(const std::vector<std::int64_t>& stalls, std::int64_t busy) {
    std::vector<Event> out;
    for (std::int64_t stall : stalls) out.push_back(read(stall, busy));
    return out;
  }
};

TEST(StallMonitor, TheWaitForTheFirstElementIsNoStall) {
  Program p;
  EXPECT_EQ(p.monitor.since_first(p.now), 0);
  EXPECT_EQ(p.read(700), Event::none);
  EXPECT_EQ(p.monitor.total(), 0);
  EXPECT_EQ(p.monitor.since_first(p.now), 0);
  p.read(30, 20);
  EXPECT_EQ(p.monitor.counted(), 30);
  p.read(0, 50);
  EXPECT_EQ(p.monitor.counted(), 0);
  EXPECT_EQ(p.monitor.total(), 30);
  EXPECT_EQ(p.monitor.since_first(p.now), 100);
  EXPECT_EQ(p.monitor.reads(), 3);
}

TEST(StallMonitor, WaitsOfAProgramWithoutLaunchesAreNoStalls) {
  StallMonitor monitor(0);
  std::int64_t now = 0;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(monitor.add(now += 10, 10, 7), Event::none);
  EXPECT_EQ(monitor.total(), 0);
  monitor.add(now += 10, 10, 8);  // a launch was made
  for (int i = 0; i < 7; ++i) monitor.add(now += 10, 10, 8);
  EXPECT_EQ(monitor.total(), 80) << "one launch may use eight elements";
  monitor.add(now += 10, 10, 8);
  EXPECT_EQ(monitor.total(), 80);
  EXPECT_EQ(monitor.counted(), 0);
}

TEST(StallMonitor, ThreeLongStallsInNineReadsAreReported) {
  const Event none = Event::none, began = Event::began, limited = Event::limited;
  Program p;
  p.read(0);
  EXPECT_EQ(p.read_all({50, 50, 50, 50, 50}, 100), (std::vector{began, none, limited, began, none}));
  EXPECT_DOUBLE_EQ(p.monitor.share(), 1 / 3.0);
  Program rare;
  rare.read(0);
  EXPECT_EQ(rare.read_all({60, 0, 0, 0, 60, 0, 0, 0, 0, 60, 0, 0}, 20),
            (std::vector{began, none, none, none, none, none, none, none, none, began, none, none}))
      << "a window has eight reads after its first one";
  Program small;
  small.read(0);
  EXPECT_EQ(small.read_all({50, 50, 50, 50, 50, 50, 50, 50, 50}, 200),
            (std::vector{began, none, none, none, none, none, none, none, none}))
      << "a fifth of the time";
  EXPECT_EQ(small.monitor.total(), 450);
  Program fast;
  fast.read(0);
  EXPECT_EQ(fast.read_all({30, 30, 30, 30, 30, 30}, 10), (std::vector{began, none, none, none, limited, began}))
      << "100 ticks are the least sum";
}

TEST(StallMonitor, StallsAfterTheLastLaunchAreNotReported) {
  StallMonitor monitor(0);
  std::int64_t now = 0;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(monitor.add(now += 10, 0, i), Event::none);
  EXPECT_EQ(monitor.add(now += 10, 10, 20), Event::began);
  for (int i = 0; i < 30; ++i) EXPECT_NE(monitor.add(now += 10, 10, 20), Event::limited);
  EXPECT_EQ(monitor.total(), 80);
}

TEST(StallMonitor, ALaunchMayReadSeveralElements) {
  StallMonitor monitor(0);
  std::int64_t now = 0, reports = 0;
  for (int i = 0; i < 80; ++i) reports += monitor.add(now += 10, 10, i / 8) == Event::limited;
  EXPECT_GE(reports, 5);
  EXPECT_EQ(monitor.total(), 720) << "all except those before the first launch";
}

TEST(StallMonitor, AStallOfATwentiethOfAReadIsNone) {
  Program p;
  p.read(0);
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(p.monitor.recovered());
    EXPECT_EQ(p.read(5, 95), Event::none);
  }
  EXPECT_TRUE(p.monitor.recovered());
  EXPECT_EQ(p.monitor.total(), 80) << "but it counts";
  EXPECT_EQ(p.read(6, 94), Event::began);
  EXPECT_FALSE(p.monitor.recovered());
}

TEST(StallsOfLaunch, AreTakenOnceAndOnlyAfterReads) {
  StallsOfLaunch stalls;
  EXPECT_FALSE(stalls.take());
  stalls.add(0);
  EXPECT_EQ(stalls.take(), 0);
  EXPECT_FALSE(stalls.take());
  stalls.add(3);
  stalls.add(0);
  stalls.add(4);
  EXPECT_EQ(stalls.take(), 7);
  EXPECT_FALSE(stalls.take());
}

}  // namespace
}  // namespace karez::runtime
