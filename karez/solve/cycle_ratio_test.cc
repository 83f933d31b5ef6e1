// Tests of the maximum cycle ratio: compares it with an enumeration of simple cycles, and checks deadlocks.
#include "karez/solve/cycle_ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "karez/base/error.h"

namespace karez::solve {
namespace {
// Visits every simple cycle once, from its smallest node through larger nodes.
class Enumeration {
 public:
  Enumeration(int nodes, const std::vector<TimedEdge>& edges) : edges_(edges), on_path_(nodes, 0) {
    for (start_ = 0; start_ < nodes; ++start_) walk(start_, 0, 0);
  }
  double best = -std::numeric_limits<double>::infinity();
  bool has_cycle = false;

 private:
  void walk(int at, double time, long tokens) {
    on_path_[at] = 1;
    for (const TimedEdge& e : edges_) {
      if (e.from != at || e.to < start_) continue;
      if (e.to == start_) {
        has_cycle = true;
        long total_tokens = tokens + e.tokens;
        best = std::max(best, total_tokens > 0 ? (time + e.time) / static_cast<double>(total_tokens)
                                               : std::numeric_limits<double>::infinity());
      } else if (!on_path_[e.to]) {
        walk(e.to, time + e.time, tokens + e.tokens);
      }
    }
    on_path_[at] = 0;
  }

  const std::vector<TimedEdge>& edges_;
  std::vector<char> on_path_;
  int start_ = 0;
};

void expect_cycle(const std::vector<TimedEdge>& edges, const CycleRatio& result) {
  double time = 0;
  long tokens = 0;
  for (std::size_t i = 0; i < result.cycle.size(); ++i) {
    ASSERT_LE(edges[result.cycle[0]].from, edges[result.cycle[i]].from);
    ASSERT_EQ(edges[result.cycle[i]].to, edges[result.cycle[(i + 1) % result.cycle.size()]].from);
    time += edges[result.cycle[i]].time;
    tokens += edges[result.cycle[i]].tokens;
  }
  ASSERT_EQ(time, result.time);
  ASSERT_EQ(tokens, result.tokens);
}

TEST(CycleRatio, TheRatioEqualsTheMaximumOverEnumeratedSimpleCycles) {
  int deadlocks = 0, live = 0, acyclic = 0;
  for (int seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    int nodes = 1 + static_cast<int>(random() % 7), count = static_cast<int>(random() % 16);
    std::vector<TimedEdge> edges;
    for (int e = 0; e < count; ++e) {
      double time = seed % 3 == 0 ? static_cast<double>(random() % 5)
                                  : static_cast<double>(random() % 100000) / 1000 - (seed % 3 == 1 ? 0 : 50);
      long tokens = static_cast<long>(random() % 4) + (seed % 2 == 0 ? 1 : 0);
      edges.push_back({static_cast<int>(random() % nodes), static_cast<int>(random() % nodes), time, tokens});
    }
    Enumeration all_cycles(nodes, edges);
    CycleRatio result = max_cycle_ratio(nodes, edges);
    ASSERT_EQ(all_cycles.has_cycle, !result.cycle.empty());
    expect_cycle(edges, result);
    if (HasFatalFailure()) return;
    if (result.is_deadlock()) {
      ASSERT_EQ(result.ratio, all_cycles.best);
    } else if (all_cycles.has_cycle) {
      ASSERT_NEAR(result.ratio, all_cycles.best, 1e-10);
    }
    (result.is_deadlock() ? deadlocks : all_cycles.has_cycle ? live : acyclic) += 1;
  }
  EXPECT_GT(deadlocks, 100);
  EXPECT_GT(live, 1000);
  EXPECT_GT(acyclic, 100);
}

TEST(CycleRatio, ACycleWithoutTokensIsReturned) {
  std::vector<TimedEdge> edges{{0, 1, 1, 1}, {1, 2, 1, 0}, {2, 3, 1, 0}, {3, 1, 1, 0}, {3, 0, 9, 1}};
  CycleRatio result = max_cycle_ratio(4, edges);
  EXPECT_TRUE(result.is_deadlock());
  EXPECT_EQ(result.cycle, (std::vector<int>{1, 2, 3}));
}

TEST(CycleRatio, TheRatioIsTheSlowestStageOfAPipelineWithEnoughSlots) {
  // Stage i takes time[i]. A stage is a cycle with one token; the register between two stages is a forward edge without
  // tokens and a backward edge with `slots` tokens.
  std::vector<double> time{3, 5, 4};
  for (long slots : {1L, 2L}) {
    std::vector<TimedEdge> edges;
    for (int i = 0; i < 3; ++i) edges.push_back({i, i, time[i], 1});
    for (int i = 0; i + 1 < 3; ++i) {
      edges.push_back({i, i + 1, time[i], 0});
      edges.push_back({i + 1, i, time[i + 1], slots});
    }
    EXPECT_EQ(max_cycle_ratio(3, edges).ratio, slots == 1 ? 9 : 5);
  }
}

TEST(CycleRatio, TheSearchConvergesOnALongGraph) {
  std::mt19937 random(11);
  constexpr int nodes = 20000;
  std::vector<TimedEdge> edges;
  for (int i = 0; i < nodes; ++i) {
    edges.push_back({i, i, static_cast<double>(random() % 1000) / 1000, 1});
    if (i + 1 < nodes) edges.push_back({i, i + 1, static_cast<double>(random() % 1000) / 1000, 0});
    if (i + 1 < nodes) edges.push_back({i + 1, i, static_cast<double>(random() % 1000) / 1000, 2});
    if (i % 100 == 99) edges.push_back({i, static_cast<int>(random() % i), 1, 1 + nodes});
  }
  double short_cycle_ratio = 0;  // the maximum over cycles of one and of two edges
  for (std::size_t e = 0; e + 2 < edges.size(); ++e) {
    const TimedEdge &a = edges[e], &b = edges[e + 1];
    if (a.from == a.to) short_cycle_ratio = std::max(short_cycle_ratio, a.time);
    if (a.from == b.to && a.to == b.from && a.tokens + b.tokens > 0)
      short_cycle_ratio = std::max(short_cycle_ratio, (a.time + b.time) / static_cast<double>(a.tokens + b.tokens));
  }
  CycleRatio result = max_cycle_ratio(nodes, edges);
  expect_cycle(edges, result);
  EXPECT_GE(result.ratio, short_cycle_ratio);
  EXPECT_LT(result.ratio, 1.1 * short_cycle_ratio);
}

TEST(CycleRatio, ASlightlySlowerCycleIsFound) {  // slower than a self-loop by less than one in a million
  const std::vector<TimedEdge> edges{{0, 0, 1e7, 1}, {0, 1, 1e7 - 5, 1}, {1, 0, 1e7 + 15, 1}};
  EXPECT_EQ(max_cycle_ratio(2, edges).ratio, 1e7 + 5);
}

TEST(CycleRatio, InvalidGraphsAreErrors) {
  EXPECT_THROW(max_cycle_ratio(1, std::vector<TimedEdge>{{0, 1, 1, 1}}), Error);
  EXPECT_THROW(max_cycle_ratio(1, std::vector<TimedEdge>{{0, 0, 1, -1}}), Error);
  for (double time : {HUGE_VAL, -HUGE_VAL, std::nan("")})
    EXPECT_THROW(max_cycle_ratio(1, std::vector<TimedEdge>{{0, 0, time, 1}}), Error);
}

}  // namespace
}  // namespace karez::solve
