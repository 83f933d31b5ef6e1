// Tests of stages that read whichever of several inputs holds a piece, and of the activities of stages.
#include <gtest/gtest.h>

#include <vector>

#include "karez/base/test_error.h"
#include "karez/plan/stages.h"

namespace karez::plan {
namespace {

using Kind = StageMessage::Kind;
using Emission = StageResult::Emission;

// A stage with inputs of three slots each.
struct TestStage {
  TestStage(int inputs, int slots) : id(inputs), ports(graph(inputs, slots), id) {}
  static StageGraph graph(int inputs, int slots) {
    StageGraph out;
    std::vector<StageId> ids(static_cast<std::size_t>(inputs));
    for (StageId& input : ids) input = out.stages.add({"input", {}, 3});
    out.stages.add({"stage", ids, slots});
    return out;
  }
  void take(const StageMessage& message) {
    ports.take(message, [](const StageMessage&) {});
  }
  void fill(int input, int slot, std::int64_t piece, bool last = false) {
    take({Kind::filled, id, input, slot, last, 1, piece});
  }
  void complete(const StageAct& act, const StageResult& result) {
    ports.complete(act, result, [](const StageMessage&) {});
  }

  StageId id;
  StagePorts ports;
};

TEST(StagePorts, AnActReadsWhicheverOfSeveralInputsHasAPiece) {
  TestStage stage(4, 9);
  const auto act_on_any = [&] {  // inputs 1 to 3
    const StageAct act = stage.ports.begin();
    stage.complete(act, {.next_input = 1, .choices = 3});
    return act.input;
  };
  stage.take({.kind = Kind::start, .to = stage.id, .run = 1});
  const std::vector<int> starts = {0, 1, 2, 3};
  stage.complete(stage.ports.begin(), {.next_input = 1, .starts = starts, .choices = 3});
  EXPECT_EQ(stage.ports.activity(), StageActivity::no_input);
  EXPECT_EQ(stage.ports.open_input(), 1);
  stage.fill(0, 0, 0);
  EXPECT_FALSE(stage.ports.ready()) << "input 0 is no choice";
  for (int piece = 0; piece < 3; ++piece) stage.fill(3, piece, piece);
  stage.fill(2, 0, 0);
  EXPECT_EQ(stage.ports.activity(), StageActivity::ready);
  EXPECT_EQ(stage.ports.readable_input(), 2);
  EXPECT_EQ(act_on_any(), 2);
  stage.fill(1, 0, 0, true);
  stage.fill(2, 1, 1);
  std::vector<int> inputs;
  while (stage.ports.ready()) inputs.push_back(act_on_any());
  EXPECT_EQ(inputs, (std::vector<int>{3, 1, 2, 3, 3})) << "in turn";
  EXPECT_EQ(stage.ports.open_input(), 2) << "input 1 has ended";
}

TEST(StagePorts, TheActivityOfAStageFollowsFromItsInputAndSlots) {
  TestStage stage(1, 1);
  EXPECT_EQ(stage.ports.activity(), StageActivity::inactive);
  stage.take({.kind = Kind::start, .to = stage.id, .run = 1});
  EXPECT_EQ(stage.ports.activity(), StageActivity::ready);
  const StageAct start = stage.ports.begin();
  EXPECT_EQ(stage.ports.activity(), StageActivity::acting);
  const std::vector<int> starts = {0};
  stage.complete(start, {.next_input = 0, .starts = starts});
  EXPECT_EQ(stage.ports.activity(), StageActivity::no_input);
  EXPECT_EQ(stage.ports.filled_slots(), 0);
  stage.fill(0, 0, 0);
  stage.complete(stage.ports.begin(), {Emission::element, 0});
  EXPECT_EQ(stage.ports.filled_slots(), 1);
  EXPECT_EQ(stage.ports.activity(), StageActivity::no_slot);
  stage.take({Kind::returned, stage.id, 0, 0});
  EXPECT_EQ(stage.ports.activity(), StageActivity::no_input);
  stage.fill(0, 1, 1, true);
  stage.complete(stage.ports.begin(), {Emission::last});
  EXPECT_EQ(stage.ports.activity(), StageActivity::inactive);
}

TEST(StagePorts, AStageMustNotChooseAmongInputsThatDoNotExistOrHaveEnded) {
  const std::vector<int> starts = {0};
  for (const auto& [first, choices, error] : {std::tuple(1, 2, "stage 2 reads input 2, but has 2 inputs"),
                                              {0, 0, "stage 2 reads input -1, but has 2 inputs"},
                                              {1, 1, "stage 2 reads input 1, whose run has ended"},
                                              {0, 2, "no error"}}) {
    TestStage stage(2, 2);
    stage.take({.kind = Kind::start, .to = stage.id, .run = 1});
    EXPECT_EQ(error_of([&, first = first, choices = choices] {
                stage.complete(stage.ports.begin(), {.next_input = first, .starts = starts, .choices = choices});
              }),
              error);
  }
}

}  // namespace
}  // namespace karez::plan
