// Tests that compare axis lower bounds with values computed by hand and with the cost of the cheapest tree.
#include "karez/sbp/axis_lower_bounds.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "karez/sbp/transition.h"

namespace karez::sbp {
namespace {

CostTable costs_of(double alpha, double beta, double memory) {
  CostTable costs;
  costs.link = {alpha, beta};
  costs.memory_bytes = memory;
  return costs;
}

TEST(AxisLowerBounds, AStepIsPricedOnThePartsThatRemainAfterTheSplitsOfOtherAxes) {
  const TensorType type{DType::f32, {8, 8}};
  AxisLowerBounds one_axis(type, Mesh::parse("a=2"), costs_of(1, 1, 1e30)),
      two_axes(type, Mesh::parse("a=2,b=4"), costs_of(1, 1, 1e30));
  const unsigned broadcast = one_axis.with(AxisLowerBounds::none, B());
  EXPECT_NEAR(one_axis.seconds(0, S(0), broadcast), 1 + 128, 1e-9);  // a message and half of 256 bytes
  EXPECT_NEAR(two_axes.seconds(0, S(0), broadcast), 1 + 32, 1e-9);   // half of a quarter
}

// Slicing a full copy is free, so requiring splits in addition costs nothing.
TEST(AxisLowerBounds, SplitsOfAFullCopyAreFree) {
  const TensorType type{DType::f32, {8, 8}};
  AxisLowerBounds bounds(type, Mesh::parse("a=2,b=2"), costs_of(1, 1, 1e30));
  const unsigned broadcast = bounds.with(AxisLowerBounds::none, B()),
                 all = bounds.with(bounds.with(broadcast, S(0)), S(1));
  EXPECT_EQ(bounds.seconds(0, B(), all), 0);
  EXPECT_EQ(bounds.seconds(0, P(), all), bounds.seconds(0, P(), broadcast));
  EXPECT_EQ(bounds.seconds(0, S(1), bounds.with(AxisLowerBounds::none, S(1))), 0);
  EXPECT_EQ(bounds.seconds(0, S(1), AxisLowerBounds::none), 0);
}

// A full copy is a valid term of a maximum; for a sum, the other members must hold zeros.
TEST(AxisLowerBounds, EachKindOfPartialIsASeparateEntry) {
  AxisLowerBounds bounds({DType::f32, {8}}, Mesh::parse("a=2"), costs_of(1, 1, 1));
  auto to = [&](Sbp from, Reduce reduce) {
    return bounds.seconds(0, from, bounds.with(AxisLowerBounds::none, P(reduce)));
  };
  EXPECT_EQ(to(B(), Reduce::max), 0);
  EXPECT_EQ(to(B(), Reduce::min), 0);
  EXPECT_EQ(to(B(), Reduce::sum), 32);
  EXPECT_EQ(to(P(Reduce::max), Reduce::max), 0);
  EXPECT_GT(to(P(Reduce::max), Reduce::min), 0);
}

// An axis cannot change a dimension that a later axis also splits, so the later axis does not reduce the bytes.
TEST(AxisLowerBounds, ALaterAxisDoesNotSplitTheDimensionThatTheStepChanges) {
  AxisLowerBounds bounds({DType::f32, {8}}, Mesh::parse("a=2,b=2"), costs_of(1, 1, 1e30));
  const unsigned broadcast = bounds.with(AxisLowerBounds::none, B());
  EXPECT_NEAR(bounds.seconds(0, S(0), broadcast), 1 + 16, 1e-9);
  EXPECT_NEAR(bounds.seconds(1, S(0), broadcast), 1 + 8, 1e-9);
}

TEST(AxisLowerBounds, TheSumOfBoundsIsAtMostTheCostOfTheCheapestTreeAndEqualToItOnOneAxis) {
  const char* seed_text = std::getenv("KAREZ_SEED");
  const std::uint64_t seed = seed_text ? std::strtoull(seed_text, nullptr, 10) : 1;
  std::printf("KAREZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  auto pick = [&](std::uint64_t count) { return random() % count; };
  const char* meshes[] = {"a=3", "a=2,b=2", "a=2,b=3", "a=2,b=2,c=2"};
  const std::int64_t sizes[] = {1, 3, 8, 30};
  int equal = 0, less = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const Mesh mesh = Mesh::parse(meshes[pick(4)]);
    TensorType type{DType::f32, {}};
    for (std::uint64_t d = 1 + pick(3); d > 0; --d) type.shape.push_back(sizes[pick(4)]);
    const CostTable costs = costs_of(pick(2) ? 1e-6 : 0, 1e-9, pick(2) ? 1e9 : 1e30);
    TransitionTable table(type, mesh, costs);
    AxisLowerBounds bounds(type, mesh, costs);
    auto random_layout = [&](bool partial) {
      Layout layout;
      do {
        layout.clear();
        for (int a = 0; a < mesh.rank(); ++a) {
          const auto e = static_cast<int>(pick(static_cast<std::uint64_t>(type.rank()) + 2));
          layout.push_back(e < type.rank() ? S(e) : e == type.rank() || !partial ? B() : P());
        }
      } while (!is_valid(type, mesh, layout));
      return layout;
    };
    const Layout from = random_layout(true);
    int set = 0;
    std::vector<unsigned> targets(static_cast<std::size_t>(mesh.rank()), AxisLowerBounds::none);
    for (std::uint64_t t = 1 + pick(4); t > 0; --t) {
      const Layout target = random_layout(false);
      set = table.with(set, table.number(target));
      for (std::size_t a = 0; a < targets.size(); ++a) targets[a] = bounds.with(targets[a], target[a]);
    }
    double bound_sum = 0;
    for (int a = 0; a < mesh.rank(); ++a)
      bound_sum += bounds.seconds(a, from[static_cast<std::size_t>(a)], targets[static_cast<std::size_t>(a)]);
    const double tree_seconds = table.seconds(table.number(from), set);
    ASSERT_LE(bound_sum, tree_seconds * (1 + 1e-12)) << "seed " << seed << ", case " << trial << ": " << print(type)
                                                     << " on " << print(mesh) << " from " << print(from);
    if (mesh.rank() == 1) {
      ASSERT_NEAR(bound_sum, tree_seconds, 1e-9 * tree_seconds) << "seed " << seed << ", case " << trial;
    }
    (bound_sum < tree_seconds * (1 - 1e-9) ? less : equal) += 1;
  }
  EXPECT_GT(equal, 100);  // otherwise the bound is weak
  EXPECT_GT(less, 20);    // otherwise the trees are too small for the test
}

}  // namespace
}  // namespace karez::sbp
