// Tests of results outside of compiled functions: their layouts, the planned transfers, and how often programs are
// planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

HostArray ramp(Shape shape) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  float next = 0;
  for (float& x : out.data<float>()) x = std::fmod(next += 0.37F, 2.0F);
  return out;
}

Tensor laid(const DeviceMesh& mesh, const HostArray& value, const std::vector<std::string>& words) {
  return Tensor(compile(mesh, [&](Tensor x) { return with_layout(x + 0.0F, words); })(value).value());
}

std::int64_t compiled(const DeviceMesh& mesh) { return mesh.world->expression_plans->compiled; }
const plan::Plan& last_plan(const DeviceMesh& mesh) {
  return mesh.world->expression_plans->plans.back().function.plan();
}
std::vector<std::string> transfers(const DeviceMesh& mesh) {
  std::vector<std::string> kinds;
  for (const plan::Transfer& transfer : last_plan(mesh).transfers) kinds.push_back(transfer.kind);
  return kinds;
}
std::int64_t planned_bytes(const DeviceMesh& mesh) {
  const auto& all = last_plan(mesh).transfers;
  return std::accumulate(all.begin(), all.end(), std::int64_t{0},
                         [](std::int64_t sum, const plan::Transfer& one) { return sum + one.bytes; });
}

TEST(Results, ResultsOfASplitOperandNeedNoGather) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Tensor a = laid(mesh, ramp({1024, 1024}), {"d", ""});
  const std::int64_t held = world.held_bytes();
  const Tensor y = a * 2;
  EXPECT_EQ(y.array().layout(), (Layout{S(0)}));
  EXPECT_THAT(transfers(mesh), IsEmpty());
  EXPECT_EQ(planned_bytes(mesh), 0);
  EXPECT_EQ(world.held_bytes() - held, 4 << 20) << "whole on both devices, it would be twice as much";
  const Tensor whole = with_layout(y, {"", ""});
  EXPECT_EQ(whole.array().layout(), (Layout{B()}));
  EXPECT_THAT(transfers(mesh), ElementsAre("all_gather")) << "gathered if the user requests the whole";
  EXPECT_EQ(planned_bytes(mesh), 4 << 20);
  const HostArray one = ramp({1024, 1024}), other = y.read();
  for (std::int64_t i = 0; i < one.count(); i += 997)
    ASSERT_EQ(other.data<float>()[static_cast<std::size_t>(i)], 2 * one.data<float>()[static_cast<std::size_t>(i)]);
}

TEST(Results, PartialSumsAreReducedAtTheLowestCost) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Tensor a = laid(mesh, ramp({256, 512}), {"", "d"}), b = laid(mesh, ramp({512, 256}), {"d", ""});
  const Tensor y = matmul(a, b);
  ASSERT_EQ(y.array().layout().size(), 1U);
  EXPECT_TRUE(y.array().layout()[0].is_split()) << sbp::print(y.array().layout());
  EXPECT_THAT(transfers(mesh), ElementsAre("reduce_scatter"));
  EXPECT_EQ(sum(a, {1}).array().layout(), (Layout{B()})) << "a small result is whole";
  EXPECT_THAT(transfers(mesh), ElementsAre("all_reduce"));
}

TEST(Results, ResultsAreSplitOnlyAboveTheLimit) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  for (const std::int64_t rows : {16384, 16385})
    for (const char* word : {"d", ""}) {
      const Tensor y = laid(mesh, ramp({rows}), {word}) * 3;
      EXPECT_EQ(y.array().layout()[0].is_split(), rows == 16385 && word[0] == 'd') << rows << " rows, '" << word << "'";
    }
}

TEST(Results, ALoopHasOneProgramOnceItsLayoutsAreStable) {
  World world({.devices = 4});
  for (const char* axes : {"d=2", "d=3", "a=2,b=2"}) {
    const DeviceMesh mesh = world.mesh(axes);
    const std::string axis = mesh.mesh.axes[0].name;
    const Tensor g = laid(mesh, ramp({301, 128}), {axis, ""});
    Tensor x = laid(mesh, ramp({301, 128}), {"", ""});
    const std::int64_t before = compiled(mesh);
    for (int i = 0; i < 8; ++i) {
      x = x * 0.9 + g;
      EXPECT_TRUE(x.array().layout()[0].is_split(0)) << axes;
      EXPECT_EQ(compiled(mesh) - before, i == 0 ? 1 : 2) << axes << ", step " << i;
    }
    for (int i = 0; i < 256; ++i) x = x * 0.9 + g;
    x.array();
    const std::int64_t settled = compiled(mesh);
    for (int i = 0; i < 256; ++i) x = x * 0.9 + g;
    x.array();
    EXPECT_EQ(compiled(mesh), settled) << axes;
    EXPECT_EQ(x.array().layout(), g.array().layout()) << axes;
  }
}

TEST(Results, ResultsOfAProgramHaveTheLayoutsOfTheirOwnOperands) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("a=2,b=2");
  const Tensor rows = laid(mesh, ramp({200, 200}), {"a", ""}), columns = laid(mesh, ramp({200, 200}), {"", "b"}),
               whole = laid(mesh, ramp({200, 200}), {"", ""});
  const Tensor one = rows * 2, two = columns * 2, three = whole * 2, both = one + two, all = both + three;
  all.array();
  EXPECT_EQ(one.array().layout(), (Layout{S(0), B()}));
  EXPECT_EQ(two.array().layout(), (Layout{B(), S(1)}));
  EXPECT_EQ(three.array().layout(), (Layout{B(), B()}));
  EXPECT_EQ(both.array().layout(), (Layout{S(0), S(1)}));
  EXPECT_EQ(all.array().layout(), (Layout{S(0), S(1)}));
}

TEST(Results, UseNoTransfersAlongAxesThatSplitNoOperand) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("a=2,b=2");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"a", ""}, {"", "b"}, {"a", "b"}, {"a+b", ""}}) {
    const Tensor x = laid(mesh, ramp({200, 200}), words);
    const Tensor y = relu(x * 2 + 1);
    EXPECT_EQ(y.array().layout(), x.array().layout());
    EXPECT_THAT(transfers(mesh), IsEmpty());
  }
}

TEST(Results, IntermediateValuesWithUserLayoutsAreCorrect) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("a=2,b=2");
  const HostArray numbers = ramp({200, 200});
  const Tensor x = laid(mesh, numbers, {"a", ""}), z = laid(mesh, numbers, {"", "b"});
  const Tensor y = with_layout(x * 3, {"", ""}) * 2 + z;
  EXPECT_EQ(y.array().layout(), (Layout{B(), S(1)}));
  const HostArray read = y.read();
  for (std::size_t i = 0; i < 40000; i += 7) ASSERT_FLOAT_EQ(read.data<float>()[i], 7 * numbers.data<float>()[i]);
}

TEST(Results, ReportTheirLayoutBeforeTheyAreComputed) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Tensor a = laid(mesh, ramp({301, 128}), {"d", ""}), whole = laid(mesh, ramp({301, 128}), {"", ""});
  const Tensor y = a * 2, z = whole * 2, s = sum(a), fixed = with_layout(a * 2, {"", "d"});
  const std::int64_t before = compiled(mesh);
  EXPECT_EQ(place_of(z).layout, (Layout{B()}));
  EXPECT_EQ(place_of(s).layout, (Layout{B()}));
  EXPECT_EQ(place_of(fixed).layout, (Layout{S(1)}));
  EXPECT_EQ(mesh_of(y)->mesh, mesh.mesh);
  EXPECT_EQ(compiled(mesh), before) << "nothing was computed";
  EXPECT_EQ(place_of(y).layout, (Layout{S(0)}));
  EXPECT_EQ(compiled(mesh), before + 1) << "the large result was computed";
}

}  // namespace
}  // namespace karez
