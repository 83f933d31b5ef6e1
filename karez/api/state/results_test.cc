// Tests of results that are computed outside of compiled functions: their layouts, the planned transfers, and how often
// programs are planned.
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

Tensor make_tensor(const DeviceMesh& mesh, const HostArray& value, const std::vector<std::string>& axes_of_dimensions) {
  return Tensor(compile(mesh, [&](Tensor x) { return with_layout(x + 0.0F, axes_of_dimensions); })(value).value());
}

std::int64_t count_programs(const DeviceMesh& mesh) { return mesh.world->expression_plans.compiled; }
const plan::Plan& last_plan(const DeviceMesh& mesh) {
  return mesh.world->expression_plans.entries.back().plan->function.plan();
}
std::vector<std::string> transfers(const DeviceMesh& mesh) {
  std::vector<std::string> kinds;
  for (const plan::Transfer& transfer : last_plan(mesh).transfers) kinds.emplace_back(name_of(transfer.kind));
  return kinds;
}
std::int64_t planned_bytes(const DeviceMesh& mesh) {
  const auto& total = last_plan(mesh).transfers;
  return std::accumulate(total.begin(), total.end(), std::int64_t{0},
                         [](std::int64_t sum, const plan::Transfer& transfer) { return sum + transfer.bytes; });
}

TEST(Results, ResultsOfASplitOperandNeedNoGather) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Tensor a = make_tensor(mesh, ramp({1024, 1024}), {"d", ""});
  const std::int64_t held_before = world.held_bytes();
  const Tensor y = a * 2;
  EXPECT_EQ(y.array().layout(), (Layout{S(0)}));
  EXPECT_THAT(transfers(mesh), IsEmpty());
  EXPECT_EQ(planned_bytes(mesh), 0);
  EXPECT_EQ(world.held_bytes() - held_before, 4 << 20) << "each device must hold only its part";
  const Tensor replicated = with_layout(y, {"", ""});
  EXPECT_EQ(replicated.array().layout(), (Layout{B()}));
  EXPECT_THAT(transfers(mesh), ElementsAre("all_gather")) << "a requested replicated layout must be gathered";
  EXPECT_EQ(planned_bytes(mesh), 4 << 20);
  const HostArray input = ramp({1024, 1024}), output = y.read();
  for (std::int64_t i = 0; i < input.count(); i += 997)
    ASSERT_EQ(output.data<float>()[static_cast<std::size_t>(i)], 2 * input.data<float>()[static_cast<std::size_t>(i)]);
}

TEST(Results, PartialSumsAreReducedAtTheLowestCost) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Tensor a = make_tensor(mesh, ramp({256, 512}), {"", "d"}), b = make_tensor(mesh, ramp({512, 256}), {"d", ""});
  const Tensor y = matmul(a, b);
  ASSERT_EQ(y.array().layout().size(), 1U);
  EXPECT_TRUE(y.array().layout()[0].is_split()) << sbp::print(y.array().layout());
  EXPECT_THAT(transfers(mesh), ElementsAre("reduce_scatter"));
  EXPECT_EQ(sum(a, {1}).array().layout(), (Layout{B()})) << "a small result must be replicated";
  EXPECT_THAT(transfers(mesh), ElementsAre("all_reduce"));
}

TEST(Results, ResultsAreSplitOnlyAboveTheLimit) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  for (const std::int64_t rows : {16384, 16385})
    for (const char* split_axis : {"d", ""}) {
      const Tensor y = make_tensor(mesh, ramp({rows}), {split_axis}) * 3;
      EXPECT_EQ(y.array().layout()[0].is_split(), rows == 16385 && split_axis[0] == 'd')
          << rows << " rows, '" << split_axis << "'";
    }
}

TEST(Results, IterationsOfALoopShareAProgramOnceTheirLayoutsAreStable) {
  World world({.devices = 4});
  for (const char* axes : {"d=2", "d=3", "a=2,b=2"}) {
    const DeviceMesh mesh = world.mesh(axes);
    const std::string axis = mesh.mesh.axes[0].name;
    const Tensor g = make_tensor(mesh, ramp({301, 128}), {axis, ""});
    Tensor x = make_tensor(mesh, ramp({301, 128}), {"", ""});
    const std::int64_t programs_before = count_programs(mesh);
    for (int i = 0; i < 8; ++i) {
      x = x * 0.9 + g;
      EXPECT_TRUE(x.array().layout()[0].is_split(0)) << axes;
      EXPECT_EQ(count_programs(mesh) - programs_before, i == 0 ? 1 : 2) << axes << ", step " << i;
    }
    for (int i = 0; i < 256; ++i) x = x * 0.9 + g;
    x.array();
    const std::int64_t program_count = count_programs(mesh);
    for (int i = 0; i < 256; ++i) x = x * 0.9 + g;
    x.array();
    EXPECT_EQ(count_programs(mesh), program_count) << axes;
    EXPECT_EQ(x.array().layout(), g.array().layout()) << axes;
  }
}

TEST(Results, ResultsOfAProgramHaveTheLayoutsOfTheirOperands) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("a=2,b=2");
  const Tensor rows = make_tensor(mesh, ramp({200, 200}), {"a", ""}),
               columns = make_tensor(mesh, ramp({200, 200}), {"", "b"}),
               replicated = make_tensor(mesh, ramp({200, 200}), {"", ""});
  const Tensor row_result = rows * 2, column_result = columns * 2, replicated_result = replicated * 2,
               pair_sum = row_result + column_result, total = pair_sum + replicated_result;
  total.array();
  EXPECT_EQ(row_result.array().layout(), (Layout{S(0), B()}));
  EXPECT_EQ(column_result.array().layout(), (Layout{B(), S(1)}));
  EXPECT_EQ(replicated_result.array().layout(), (Layout{B(), B()}));
  EXPECT_EQ(pair_sum.array().layout(), (Layout{S(0), S(1)}));
  EXPECT_EQ(total.array().layout(), (Layout{S(0), S(1)}));
}

TEST(Results, ResultsNeedNoTransfersAlongAxesThatSplitNoOperand) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("a=2,b=2");
  for (const std::vector<std::string>& axes_of_dimensions :
       {std::vector<std::string>{"a", ""}, {"", "b"}, {"a", "b"}, {"a+b", ""}}) {
    const Tensor x = make_tensor(mesh, ramp({200, 200}), axes_of_dimensions);
    const Tensor y = relu(x * 2 + 1);
    EXPECT_EQ(y.array().layout(), x.array().layout());
    EXPECT_THAT(transfers(mesh), IsEmpty());
  }
}

TEST(Results, IntermediateValuesWithUserLayoutsAreCorrect) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("a=2,b=2");
  const HostArray numbers = ramp({200, 200});
  const Tensor x = make_tensor(mesh, numbers, {"a", ""}), z = make_tensor(mesh, numbers, {"", "b"});
  const Tensor y = with_layout(x * 3, {"", ""}) * 2 + z;
  EXPECT_EQ(y.array().layout(), (Layout{B(), S(1)}));
  const HostArray read = y.read();
  for (std::size_t i = 0; i < 40000; i += 7) ASSERT_FLOAT_EQ(read.data<float>()[i], 7 * numbers.data<float>()[i]);
}

TEST(Results, LayoutsCanBeQueriedBeforeTheResultsAreComputed) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Tensor a = make_tensor(mesh, ramp({301, 128}), {"d", ""}),
               replicated = make_tensor(mesh, ramp({301, 128}), {"", ""});
  const Tensor y = a * 2, z = replicated * 2, s = sum(a), fixed = with_layout(a * 2, {"", "d"});
  const std::int64_t programs_before = count_programs(mesh);
  EXPECT_EQ(place_of(z).layout, (Layout{B()}));
  EXPECT_EQ(place_of(s).layout, (Layout{B()}));
  EXPECT_EQ(place_of(fixed).layout, (Layout{S(1)}));
  EXPECT_EQ(mesh_of(y)->mesh, mesh.mesh);
  EXPECT_EQ(count_programs(mesh), programs_before) << "these queries must not compute anything";
  EXPECT_EQ(place_of(y).layout, (Layout{S(0)}));
  EXPECT_EQ(count_programs(mesh), programs_before + 1) << "the query for the large result must compute it";
}

}  // namespace
}  // namespace karez
