// Tests of the variables of a session: how they are read and written with strides, shared between plans, and forgotten.
#include "karez/runtime/variable_lock.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

const KernelTable& kernels() {
  static const KernelTable table(test_kernels());
  return table;
}

const View two_by_two(DType::f32, {2, 2});
const PlanDevice first_device{0, 0, "cpu"};

TEST(Variables, VariablesAreReadAndWrittenWithStrides) {
  Session session({}, kernels());
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  s.block(BlockKind::variable, 0, 16, "w", "f32[2, 2]");
  session.load(s.plan);
  View turned(DType::f32, {2, 2}, {1, 2});
  session.write_variable("w", first_device, turned, HostArray::of<float>({2, 2}, {1, 2, 3, 4}));
  auto plain = session.read_variable("w", first_device, two_by_two),
       back = session.read_variable("w", first_device, turned);
  EXPECT_EQ(plain.data<float>()[1], 3) << "expected column-major order in memory";
  EXPECT_EQ(back.data<float>()[1], 2);
  EXPECT_TRUE(session.has_variable("w", first_device));
  EXPECT_EQ(error_of([&] { session.read_variable("v", first_device, two_by_two); }),
            "device 0.0 has no variable 'v'; there is 1: w");
  EXPECT_EQ(error_of([&] {
              session.read_variable("w", first_device, View(DType::f32, {3, 2}));
            }),
            "variable 'w' is stored as f32[2, 2] in 16 bytes; f32[3, 2] takes 24");
  EXPECT_EQ(error_of([&] {
              session.write_variable("w", first_device, two_by_two, HostArray::of<float>({4}, {1, 2, 3, 4}));
            }),
            "variable 'w': expected a value of type f32[2, 2], got f32[4]");
}

TEST(Variables, AWriteThroughAViewWithGapsLeavesTheGapsUnchanged) {
  Session session({.poison = false}, kernels());
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  s.block(BlockKind::variable, 0, 32, "v", "f32[8]");
  session.load(s.plan);
  View all(DType::f32, {8}), third(DType::f32, {3}, {3});  // elements 0, 3 and 6
  session.write_variable("v", first_device, all, HostArray::of<float>({8}, {0, 1, 2, 3, 4, 5, 6, 7}));
  session.write_variable("v", first_device, third, HostArray::of<float>({3}, {-1, -2, -3}));
  HostArray whole = session.read_variable("v", first_device, all),
            part = session.read_variable("v", first_device, third);
  auto all_values = whole.data<float>(), every_third = part.data<float>();
  EXPECT_EQ(std::vector<float>(all_values.begin(), all_values.end()), (std::vector<float>{-1, 1, 2, -2, 4, 5, -3, 7}));
  EXPECT_EQ(std::vector<float>(every_third.begin(), every_third.end()), (std::vector<float>{-1, -2, -3}));
}

TEST(Variables, AForgottenVariableRemainsInPlansThatUseIt) {
  Session session({.poison = false}, kernels());
  const View one(DType::f32, {1});
  int plan = session.load(counting_plan());
  session.write_variable("n", first_device, one, HostArray::of<float>({1}, {10}));
  session.forget_variable("m");
  EXPECT_TRUE(session.has_variable("n", first_device));
  session.forget_variable("n");
  EXPECT_FALSE(session.has_variable("n", first_device));
  EXPECT_EQ(session.launch(plan).output("n").data<float>()[0], 11);
  int again = session.load(counting_plan());
  session.write_variable("n", first_device, one, HostArray::of<float>({1}, {50}));
  EXPECT_EQ(session.launch(again).output("n").data<float>()[0], 51);
  EXPECT_EQ(session.launch(plan).output("n").data<float>()[0], 12) << "the first plan must keep the forgotten variable";
}

TEST(Variables, TwoPlansShareAVariableIfTheirLayoutsAreEqual) {
  Session session({.poison = false}, kernels());
  int a = session.load(counting_plan("first")), b = session.load(counting_plan("second"));
  session.launch(a);
  session.launch(b);
  EXPECT_EQ(session.launch(a).output("n").data<float>()[0], 3);
  Plan other = counting_plan("third");
  for (Block& block : other.blocks)
    if (block.kind == BlockKind::variable) block.layout = "f32[1@data]";
  EXPECT_EQ(
      error_of([&] { session.load(other); }),
      "plan 'third': variable 'n' of device 0.0 is stored as f32[1] (4 bytes), but this plan requires f32[1@data] "
      "(4 bytes)");
  EXPECT_EQ(session.launch(b).output("n").data<float>()[0], 4) << "the rejected plan must have no effect";
}

TEST(Variables, AFailedLoadAddsNoVariable) {
  Session session({.poison = false}, kernels());
  for (bool in_setup : {false, true}) {
    Plan plan = counting_plan("bad");
    plan.blocks.push_back({BlockKind::variable, DeviceId(0), 8, "m", "f32[2]"});
    Call missing;
    missing.kernel = in_setup ? "test.fail" : "test.missing";
    missing.attrs = {{"at", std::int64_t{1}}};
    if (in_setup) plan.setup.push_back(missing);  // prepared, but it throws when it runs
    else plan.actors[ActorId(1)].calls.push_back(missing);
    EXPECT_NE(error_of([&] { session.load(plan); }), "no error");
    EXPECT_FALSE(session.has_variable("n", first_device));
    EXPECT_FALSE(session.has_variable("m", first_device));
  }
  Plan other = counting_plan("good");  // "n" was not added, so another layout is allowed
  for (Block& block : other.blocks)
    if (block.kind == BlockKind::variable) block.layout = "f32[1@data]";
  EXPECT_EQ(session.launch(session.load(other)).output("n").data<float>()[0], 1);
}

}  // namespace
}  // namespace karez::runtime
