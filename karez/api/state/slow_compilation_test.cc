// Tests of the line about a compilation that takes long.
#include "karez/api/state/slow_compilation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/testing/test_inputs.h"

namespace karez {
namespace {
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Action> std::string output_of(Action action) {
  ::testing::internal::CaptureStderr();
  action();
  return ::testing::internal::GetCapturedStderr();
}

TEST(SlowCompilation, OneLineAppearsAfterTwoSeconds) {
  double now = 100;
  const std::string output = output_of([&] {
    SlowCompilation slow("function 'step' (net.cc:12)", [&] { return now; });
    slow.check();
    now = 102;
    slow.check();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
    ::testing::internal::CaptureStderr();
    slow.set_nodes(670);
    now = 102.12;
    slow.check();
    now = 110;
    slow.check();
  });
  EXPECT_EQ(
      output,
      "karez warning: compiling function 'step' (net.cc:12) of 670 nodes takes more than 2 s; later calls use the "
      "same plan\n");
}

TEST(SlowCompilation, TheLineAppearsAtTheEndIfNothingChecksTheTime) {
  double now = 0;
  const auto compile_for = [&](double seconds) {
    const SlowCompilation slow("function 'step'", [&] { return now; });
    now += seconds;
  };
  EXPECT_THAT(output_of([&] { compile_for(2); }), IsEmpty());
  EXPECT_EQ(output_of([&] { compile_for(3.5); }),
            "karez warning: compiling function 'step' takes more than 2 s; later calls use the same plan\n");
}

TEST(SlowCompilation, ACompiledFunctionIsReported) {
  World world;
  const DeviceMesh mesh = world.mesh();
  bool is_slow = false;
  const auto step = compile(mesh,
                            [&](Tensor x) {
                              if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(2100));
                              return x * 2;
                            },
                            {.name = "step"});
  EXPECT_THAT(output_of([&] { step(vector_of(1)).wait(); }), IsEmpty());
  is_slow = true;
  EXPECT_THAT(output_of([&] {
                step(HostArray::of<float>({1, 1}, {1})).wait();
              }),
              HasSubstr("compiling function 'step' (slow_compilation_test.cc:"));
}

}  // namespace
}  // namespace karez
