// Tests of SessionOptions::check_nan: which non-finite values are reported, and for which call.
#include "karez/runtime/actor/check_finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/runtime/actor/test_grid.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

// y = 2 x + value
KernelRow double_kernel() {
  return test_row("double", [](const CallSpec& c) -> PreparedKernel {
    return [n = c.out[0].count(), value = static_cast<float>(c.attrs.real("value", 0))](const KernelArgs& args) {
      for (std::int64_t i = 0; i < n; ++i) test_data(args.out[0])[i] = 2 * test_data(args.in[0])[i] + value;
    };
  });
}

// Doubles the input "x" of four elements twice and fetches the results of both calls.
Plan doubling_plan(double value = 0) {
  PlanBuilder s;
  ActorId input = s.actor("input", 0, 0, BodyKind::input), once = s.actor("once"), twice = s.actor("twice"),
          fetch = s.actor("fetch", 0, 0, BodyKind::fetch);
  s.start(input);
  RegisterId x = s.edge(input, {once}, 1, 16), y = s.edge(once, {twice}, 1, 16), z = s.edge(twice, {fetch}, 1, 16);
  s.done(fetch);
  s.plan.actors[input].binding = "x";
  s.plan.actors[input].bound = {in_register(x, test_vector)};
  s.plan.actors[input].slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
  s.call(once, "test.double", {in_register(x, test_vector)}, {in_register(y, test_vector)}, {{"value", value}});
  s.call(twice, "test.double", {in_register(y, test_vector)}, {in_register(z, test_vector)});
  s.plan.actors[fetch].binding = "z";
  s.plan.actors[fetch].bound = {in_register(z, test_vector)};
  return s.plan;
}

Feed feed_of(std::vector<float> x) {
  const auto count = static_cast<std::int64_t>(x.size());
  return {array_source(HostArray::of<float>({count}, x)), 0};
}

TEST(CheckNan, TheCallThatProducesTheFirstNonFiniteValueIsReported) {
  KernelTable table({double_kernel()});
  for (bool poison : {false, true}) {
    Session session({.poison = poison, .check_nan = true}, table);
    const int plan = session.load(doubling_plan());
    EXPECT_EQ(error_of([&] {
                session.launch(plan, {{"x", feed_of({1, 1e38f, 3e38f, -3e38f})}}).wait();
              }),
              "test.double at sketch.cc:2: produces inf at [2] of f32[4] [launch 1, actor 'once', device 0.0]");
    EXPECT_EQ(error_of([&] {
                session.launch(plan, {{"x", feed_of({1, -1e38f, 2, 3})}}).wait();
              }),
              "test.double at sketch.cc:2: produces -inf at [1] of f32[4] [launch 2, actor 'twice', device 0.0]");
    Launch launch = session.launch(plan, {{"x", feed_of({1, 2, 3, 4})}});
    launch.wait();
    EXPECT_EQ(launch.output("z").data<float>()[3], 16) << "a launch without infinity must run after the failures";
  }
}

TEST(CheckNan, ARequestedInfinityIsReportedNeitherForItsCallNorForItsReaders) {
  KernelTable table({double_kernel()});
  Session session({.check_nan = true}, table);
  Launch launch = session.launch(session.load(doubling_plan(-inf)), {{"x", feed_of({1, 2, 3, 4})}});
  launch.wait();
  EXPECT_EQ(launch.output("z").data<float>()[0], -inf);
}

TEST(CheckNan, NonFiniteInputsAreReported) {
  KernelTable table({double_kernel()});
  Session session({.check_nan = true}, table);
  const int plan = session.load(doubling_plan());
  for (float value : {nan, inf, -inf})
    EXPECT_THAT(error_of([&] {
                  session.launch(plan, {{"x", feed_of({1, 2, 3, value})}}).wait();
                }),
                StartsWith(cat("input at sketch.cc:1: holds ",
                               std::isnan(value) ? "NaN"
                               : value > 0       ? "inf"
                                                 : "-inf",
                               " at [3] of f32[4] [launch ")));
}

TEST(CheckNan, WithoutTheOptionNothingIsReported) {
  KernelTable table({double_kernel()});
  Session session({.check_nan = false}, table);
  Launch launch = session.launch(session.load(doubling_plan()), {{"x", feed_of({1, 1, 3e38f, 1})}});
  launch.wait();
  EXPECT_EQ(launch.output("z").data<float>()[2], inf);
}

TEST(CheckNan, NanInAVariableIsReportedByTheCallThatReadsItButInfinityIsAccepted) {
  KernelTable table(test_kernels());
  Session session({.check_nan = true}, table);
  const int plan = session.load(counting_plan());
  auto set = [&](float value) {
    session.write_variable("n", {0, 0, "cpu"}, View(DType::f32, {1}), HostArray::of<float>({1}, {value}));
  };
  set(inf);
  EXPECT_NO_THROW(session.launch(plan).wait());
  set(nan);
  EXPECT_THAT(error_of([&] { session.launch(plan).wait(); }),
              StartsWith("test.count at sketch.cc:2: reads variable 'n', which holds NaN at [0] of f32[1] [launch 2"));
}

TEST(CheckNan, ASumOfFiniteOperandsThatOverflowsIsReportedForTheCollective) {
  for (int workers : {1, 2})
    for (const char* algorithm : {"ring", "direct"}) {
      Grid grid(1, 2, 1, 4, algorithm, workers);
      KernelTable table({Grid::kernel()});
      Session session({.workers = workers, .check_nan = true}, table);
      const int plan = session.load(grid.s.plan);
      EXPECT_THAT(error_of([&] {
                    session.launch(plan, {{"x", feed_of({1, 2, 3e38f, 1, 1, 1, 3e38f, 1})}}).wait();
                  }),
                  AllOf(HasSubstr("all_reduce at net.cc:0: produces inf at [2] of f32[4] [launch 1, actor "),
                        Not(HasSubstr("net.cc:1"))));
    }
}

TEST(CheckNan, TensorsAreSearchedByTheirStridesAndIntegersAreAlwaysFinite) {
  const double values[] = {1, nan, 2, nan, 3, nan};
  auto* bytes = reinterpret_cast<std::byte*>(const_cast<double*>(values));
  const View every_second(DType::f64, {3}, {2}), all(DType::f64, {2, 3}), integers(DType::i64, {6}),
      none(DType::f64, {0});
  EXPECT_TRUE(all_finite({bytes, &every_second}));
  EXPECT_FALSE(all_finite({bytes, &all}));
  EXPECT_TRUE(all_finite({bytes, &integers}));
  EXPECT_TRUE(all_finite({bytes, &none}));
  EXPECT_EQ(error_of([&] { require_finite({bytes, &all}, "holds"); }), "holds NaN at [0, 1] of f64[2, 3]");
}

}  // namespace
}  // namespace karez::runtime
