// Tests of replays of plans with known results, including registers with several slots and ports with periods.
#include "tools/karez/replay.h"

#include <gtest/gtest.h>

#include "karez/data/array_source.h"

namespace karez::tools {
namespace {

// The input fills a register of two slots; `total` adds each piece to a variable; out0 is the value of the variable
// after the launch.
const char* twice = R"(
plan "twice" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
block b0: register device 0 bytes 256
block b1: variable device 0 bytes 8 name "sum" layout "f32[2;]"
block b2: scratch device 0 bytes 8192
register r0: a0 -> a1 slots 2 bytes 8 in b0 stride 64
register r1: a1 -> a2 bytes 8 in b0 + 128 stride 64
register r2: session -> a0
register r3: a2 -> session
actor a0: input "input x" stream 0 in r2 out r0 binding "x"
  bound r0 f32[2]
  slice {begin=[0], shape=[2]}
actor a1: compute "total" stream 0 in r0 out r1
  call "plain.pointwise" {expr="x0 + x1"} in r0 f32[2], b1 f32[2] out r1 f32[2] workspace b2 bool[8192]
  call "plain.copy" in r1 f32[2] out b1 f32[2]
actor a2: fetch "fetch out0" stream 0 in r1 out r3 binding "out0"
  bound r1 f32[2]
)";

struct CountingSource : Source {  // batch p is [p, 10 p]
  TensorType type() const override { return {DType::f32, {2}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const TensorRef& out) const override {
    out.as<float>()[0] = static_cast<float>(position), out.as<float>()[1] = 10 * static_cast<float>(position);
  }
};

std::vector<float> out0(const Replay& replay) {
  auto values = replay.outputs().at(0).second.data<float>();
  return {values.begin(), values.end()};
}

TEST(Replay, StateContinuesFromLaunchToLaunch) {
  const Plan plan = parse_plan(twice);
  const KernelTable kernels(plain_kernels());
  Replay replay(plan, kernels, {{"x", {std::make_shared<CountingSource>(), 3}}},
                {{"sum", {0, 0, "cpu"}, HostArray::of<float>({2}, {100, 200})}});
  EXPECT_EQ(replay.calls(), 4u);
  for (int launch = 1; launch <= 3; ++launch) {
    const ReplayTimes times = replay.launch();
    EXPECT_EQ(out0(replay),
              (std::vector<float>{100.0f + 3 * static_cast<float>(launch), 200.0f + 30 * static_cast<float>(launch)}));
    EXPECT_GT(times.inside, 0);
    EXPECT_LT(times.inside, times.seconds);
  }
}

TEST(Replay, ARepeatedActReadsTheNextBatchFromTheNextSlot) {
  std::string text = twice;
  auto replace_text = [&](const std::string& original, const std::string& replacement) {
    const std::size_t at = text.find(original);
    ASSERT_NE(at, std::string::npos) << original;
    text.replace(at, original.size(), replacement);
  };
  replace_text("actor a0: input \"input x\" stream 0 in r2 out r0",
               "actor a0: input \"input x\" stream 0 in r2 every 2 out r0");
  replace_text("in r0 out r1\n", "in r0 out r1 every 2\n");
  const Plan plan = parse_plan(text);
  verify(plan);
  const KernelTable kernels(plain_kernels());
  Replay replay(plan, kernels, {{"x", {std::make_shared<CountingSource>(), 3}}},
                {{"sum", {0, 0, "cpu"}, HostArray::of<float>({2}, {100, 200})}});
  EXPECT_EQ(replay.calls(), 7u) << "expected two reads, two calls in each of two acts, and a fetch";
  for (int launch = 1; launch <= 3; ++launch) {
    replay.launch();
    EXPECT_EQ(out0(replay),
              (std::vector<float>{100.0f + 7 * static_cast<float>(launch), 200.0f + 70 * static_cast<float>(launch)}))
        << "each launch must add batches 3 and 4";
  }
}

TEST(Replay, PartsOfAResultAreInTheCorrectRows) {  // rows of [3, 2] on two devices
  const Plan plan = parse_plan(R"(
plan "parts" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
device 1: 0 1 "cpu"
stream 0: "compute" device 0 worker 0
stream 1: "compute" device 1 worker 0
block b0: register device 0 bytes 64
block b1: register device 1 bytes 64
register r0: a0 -> a2 bytes 16 in b0 stride 64
register r1: a1 -> a3 bytes 8 in b1 stride 64
register r2: session -> a0
register r3: session -> a1
register r4: a2 -> session
register r5: a3 -> session
actor a0: input "input x" stream 0 in r2 out r0 binding "x"
  bound r0 f32[2, 2]
  slice {begin=[0, 0], shape=[3, 2]}
actor a1: input "input x" stream 1 in r3 out r1 binding "x"
  bound r1 f32[1, 2]
  slice {begin=[2, 0], shape=[3, 2]}
actor a2: fetch "fetch y" stream 0 in r0 out r4 binding "y"
  bound r0 f32[2, 2]
  slice {begin=[0, 0], shape=[3, 2]}
actor a3: fetch "fetch y" stream 1 in r1 out r5 binding "y"
  bound r1 f32[1, 2]
  slice {begin=[2, 0], shape=[3, 2]}
)");
  verify(plan);
  const KernelTable kernels(plain_kernels());
  Replay replay(plan, kernels, {{"x", {data::array_source(HostArray::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})), 0}}}, {});
  replay.launch();
  EXPECT_EQ(replay.outputs().at(0).second.type(), (TensorType{DType::f32, {3, 2}}));
  EXPECT_EQ(out0(replay), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Inputs, RandomArraysDependOnNameAndSeedAndAreInRange) {
  const Plan plan = parse_plan(twice);
  const VariableValue first_values = variables_of(plan, 1).at(0), repeated = variables_of(plan, 1).at(0),
                      different_seed = variables_of(plan, 2).at(0);
  EXPECT_EQ(first_values.name, "sum");
  const auto value_list = first_values.value.data<float>();
  for (float v : value_list) EXPECT_TRUE(v >= 0 && v < 0.01f) << v;
  EXPECT_NE(value_list[0], value_list[1]);
  EXPECT_EQ(value_list[0], repeated.value.data<float>()[0]);
  EXPECT_NE(value_list[0], different_seed.value.data<float>()[0]);
  EXPECT_EQ(feeds_of(plan, {}).at(0).second.source->type(), (TensorType{DType::f32, {2}}));
}

}  // namespace
}  // namespace karez::tools
