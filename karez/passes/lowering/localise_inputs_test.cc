// Tests of the localise pass for inputs: registers on the host, parts on devices, and rows that a rank reads.
#include "karez/passes/lowering/localise.h"

#include <gtest/gtest.h>

#include "karez/passes/lowering/test_localise.h"

namespace karez::passes {
namespace {

using testing::find_result;
using testing::root_of;
using Program = testing::LocaliseProgram;

TEST(Localise, AnInputIsOneRegisterOnTheHostWithAWindowForEachDevice) {
  Program p("data=2,model=2");
  ValueId x = p.fix(p.input("x", {5, 4}), {S(0), B()});
  p.output(p.fix(build::exp(p.b, x), {S(0), S(1)}));
  Compilation c = p.localised();
  int roots = 0;
  for (const LocalValue& local : c.local.values) roots += local.device == -1;
  EXPECT_EQ(roots, 1);
  for (int d = 0; d < 4; ++d) {
    const LocalValue& window = find_result(c, "input", d);
    EXPECT_EQ(root_of(c, window).device, -1);
    EXPECT_EQ(print(root_of(c, window).view), "f32[5, 4]");
    EXPECT_EQ(window.offset, d < 2 ? 0 : 3 * 4 * 4);
    EXPECT_EQ(print(window.view), d < 2 ? "f32[3, 4]" : "f32[2, 4]");
    EXPECT_EQ(find_result(c, "box", d).offset, window.offset + (d % 2) * 2 * 4)
        << "the slice must be a window, without a call";
  }
}

TEST(Localise, AnArrayInputIsAPartOnEachDevice) {
  Program p("data=2,model=2");
  ValueId x = build::array_input(p.b, "x", {DType::f32, {5, 4}}, {B(), S(0)});
  p.output(p.fix(build::exp(p.b, x), {S(1), S(0)}));
  p.graph.outputs[0].layout = Layout{S(1), S(0)};
  Compilation c = p.localised();
  for (int d = 0; d < 4; ++d) {
    const LocalValue& part = find_result(c, "input", d);
    EXPECT_EQ(root_of(c, part).device, d);
    EXPECT_EQ(print(part.view), d % 2 == 0 ? "f32[3, 4]" : "f32[2, 4]");
    EXPECT_EQ(part.box, (Box{d % 2 == 0 ? Range{0, 3} : Range{3, 5}, {0, 4}}));
    EXPECT_EQ(find_result(c, "box", d).offset, d / 2 * 2 * 4) << "the slice must be a window, without a call";
  }
  ASSERT_EQ(c.local.outputs.size(), 4u);
  for (int d = 0; d < 4; ++d) {
    const LocalOutput& fetched = c.local.outputs[static_cast<std::size_t>(d)];
    EXPECT_EQ(fetched.device, d);
    EXPECT_EQ(c.local.values[fetched.value].box,
              (Box{d % 2 == 0 ? Range{0, 3} : Range{3, 5}, d < 2 ? Range{0, 2} : Range{2, 4}}));
  }
}

TEST(Localise, ARankHoldsOnlyThePartOfAnInputThatItsDevicesNeed) {
  Program p("data=4");
  for (std::size_t d = 0; d < 4; ++d) p.graph.meshes[0].devices[d] = {static_cast<int>(d / 2), static_cast<int>(d % 2)};
  ValueId x = p.fix(p.input("x", {8, 2}), {S(0)});
  p.output(p.fix(build::exp(p.b, x), {S(0)}));
  Compilation c = testing::compilation(p.graph);
  c.options.rank = 1;
  run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise"});
  const LocalValue& root = root_of(c, find_result(c, "input", 1));
  EXPECT_EQ(print(root.view), "f32[4, 2]");
  EXPECT_EQ(root.box, (Box{{4, 8}, {0, 2}}));
  c.options.rank = 2;
  EXPECT_THROW(run_passes(c, {"localise"}), Error);
}

// Kernels are chosen by strides, and ranks that hold different amounts of an input must choose the same kernels.
TEST(Localise, TheStridesOfAnInputDoNotDependOnOtherPartsOfTheRank) {
  auto windows = [](const Layout& layout, int devices_per_rank) {
    std::map<std::pair<int, int>, std::string> views;  // by coordinates on the mesh
    std::int64_t held_elements = 0;
    for (int rank = 0; rank < 4 / devices_per_rank; ++rank) {
      Program p("data=2,model=2");
      for (int d = 0; d < 4; ++d)
        p.graph.meshes[0].devices[static_cast<std::size_t>(d)] = {d / devices_per_rank, d % devices_per_rank};
      ValueId x = p.input("x", {8, 6});
      p.graph.value(x).layout = layout;
      ValueId y = build::exp(p.b, x);
      p.graph.value(y).layout = layout;
      p.output(y);
      Compilation c = testing::compilation(p.graph);
      c.options.rank = rank;
      run_passes(c, {"order", "segment", "slots", "layout", "localise"});
      for (int d = 0; d < devices_per_rank; ++d) {
        const int device = rank * devices_per_rank + d;
        views[{device / 2, device % 2}] = print(find_result(c, "input", d).view);
      }
      for (const LocalValue& local : c.local.values) held_elements += local.device == -1 ? local.view.count() : 0;
    }
    return std::pair{views, held_elements};
  };
  for (const Layout& layout : {Layout{S(0), S(1)}, {S(1), B()}, {S(1), S(0)}, {S(0), B()}, {B(), B()}}) {
    const auto one_per_rank = windows(layout, 1), two_per_rank = windows(layout, 2), four_per_rank = windows(layout, 4);
    EXPECT_EQ(one_per_rank.first, four_per_rank.first) << print(layout);
    EXPECT_EQ(two_per_rank.first, four_per_rank.first) << print(layout);
    EXPECT_EQ(four_per_rank.second, 48) << print(layout) << ": the rank must hold each element of the input once";
  }
}

TEST(Localise, IfAllReadersOfAnInputAreSlicesARankHoldsOnlyTheSlices) {
  Program p("data=4");
  for (int d = 0; d < 4; ++d) p.graph.meshes[0].devices[static_cast<std::size_t>(d)] = {d / 2, d % 2};
  ValueId x = p.fix(p.input("x", {8, 2}), {B()}), y = p.fix(p.input("y", {8, 2}), {B()});
  p.output(p.fix(build::exp(p.b, x), {S(0)}));
  p.output(p.fix(build::exp(p.b, y), {S(0)}));
  p.output(p.fix(build::neg(p.b, y), {B()}));
  for (int rank : {0, 1}) {
    Compilation c = testing::compilation(p.graph);
    c.options.rank = rank;
    run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise"});
    std::vector<Box> boxes;
    for (const LocalValue& local : c.local.values)
      if (local.device == -1) boxes.push_back(local.box);
    EXPECT_EQ(boxes, (std::vector<Box>{{{4 * rank, 4 * rank + 4}, {0, 2}}, {{0, 8}, {0, 2}}}))
        << "another node reads all rows of y";
  }
}

}  // namespace
}  // namespace karez::passes
