// Tests of calls that fail because of their data: all variables keep their values, even those that do not depend on the
// data, and the next call succeeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

// A source that fills each batch with its position. Batch 2 cannot be read.
struct Rows : Source {
  TensorType type() const override { return {DType::f64, {12}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    require(ErrorKind::data, position != 2, "batch ", position, " is damaged");
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<double>()[i] = static_cast<double>(position);
  }
};

// A world with a counter of steps, which does not depend on the data, and a parameter that does.
struct CountedWorld {
  World world;
  Parameter w{"w", {DType::f64, {12}}, constant_init(1)}, steps{"steps", {DType::f64, {}}, constant_init(0)};
  Function step;

  CountedWorld(const char* mesh, const std::function<Tensor(Tensor)>& transform, bool check_nan = false)
      : world({.devices = 4}),
        step(compile(world.mesh(mesh),
                     [this, transform](Tensor x) {
                       update(steps, steps + 1);
                       Tensor loss = sum(transform(x) * w);
                       update(w, w - grad(loss, {w})[0] * 0.1);
                       return loss;
                     },
                     {.check_nan = check_nan})) {}
  double count() { return world.read(steps).data<double>()[0]; }
  double first() { return world.read(w).data<double>()[0]; }
};

TEST(FailedCalls, ACallThatFailsInItsSourceDoesNotCountAsAStep) {
  for (const char* mesh : {"", "d=2", "d=3", "a=2,b=2"}) {
    CountedWorld c(mesh, [](Tensor x) { return x; });
    const auto rows = std::make_shared<Rows>();
    for (int i = 0; i < 2; ++i) c.step(Feed{rows, i}).wait();
    const double old_weight = c.first();
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_THAT(error_of([&] { c.step(Feed{rows, 2}).wait(); }), HasSubstr("batch 2 is damaged")) << mesh;
      EXPECT_EQ(c.count(), 2) << mesh;
      EXPECT_EQ(c.first(), old_weight) << mesh;
    }
    c.step(Feed{rows, 3}).wait();
    EXPECT_EQ(c.count(), 3) << mesh;
  }
}

TEST(FailedCalls, ACallThatFailsInTheNaNCheckDoesNotCountAsAStep) {
  for (const char* mesh : {"", "d=2"}) {
    CountedWorld c(
        mesh, [](Tensor x) { return log(x); }, true);
    const auto filled = [](double value) { return HostArray::of<double>({12}, std::vector<double>(12, value)); };
    c.step(filled(2)).wait();
    const double old_weight = c.first();
    EXPECT_THAT(error_of([&] { c.step(filled(-1)).wait(); }), HasSubstr("produces NaN")) << mesh;
    EXPECT_EQ(c.count(), 1) << mesh;
    EXPECT_EQ(c.first(), old_weight) << mesh;
    c.step(filled(2)).wait();
    EXPECT_EQ(c.count(), 2) << mesh;
  }
}

}  // namespace
}  // namespace karez
