// Tests of the protocol of data stages with hand-written messages to single inputs and stages.
#include "karez/plan/stages.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "karez/base/test_error.h"

namespace karez::plan {
namespace {

using Kind = StageMessage::Kind;
using Emission = StageResult::Emission;
using Texts = std::vector<std::string>;

// Appends messages as text.
struct Send {
  Texts* texts;
  void operator()(const StageMessage& message) const { texts->push_back(print(message)); }
};

Stage stage_of(std::string name, std::vector<StageId> inputs = {}, int slots = 2, int lanes = 1, bool ordered = true) {
  return {std::move(name), std::move(inputs), slots, lanes, ordered};
}

// `inputs` stages, which a stage with these slots and lanes reads.
StageGraph graph_of(int inputs, int slots = 2, int lanes = 1, bool ordered = true) {
  StageGraph graph;
  std::vector<StageId> ids(static_cast<std::size_t>(inputs));
  for (StageId& id : ids) id = graph.stages.add(stage_of("input", {}, 3));
  graph.stages.add(stage_of("stage", ids, slots, lanes, ordered));
  return graph;
}

// The last stage of a graph, and the messages that it sends.
struct TestStage {
  explicit TestStage(const StageGraph& graph) : id(graph.stages.size() - 1), ports(graph, id) {}
  void take(const StageMessage& message) { ports.take(message, Send{&texts}); }
  void fill(int slot, std::int64_t piece, bool last = false, std::int64_t run = 1, int port = 0) {
    take({Kind::filled, id, port, slot, last, run, piece});
  }
  void give_back(int slot) { take({Kind::returned, id, 0, slot}); }
  void request(Kind kind, std::int64_t run) { take({.kind = kind, .to = id, .run = run}); }
  // Begins a run and starts these inputs.
  void start(std::int64_t run, const std::vector<int>& inputs, int next_input = 0) {
    request(Kind::start, run);
    complete(ports.begin(), Emission::nothing, next_input, inputs);
  }
  void complete(const StageAct& act, Emission emission, int next_input = -1, const std::vector<int>& starts = {}) {
    ports.complete(act, {emission, next_input, starts}, Send{&texts});
  }
  Texts sent() { return std::exchange(texts, {}); }  // since the last call

  StageId id;
  StagePorts ports;
  Texts texts;
};

// The messages of a stage during its run 1, to the reader and to its input.
std::string filled(int slot, std::int64_t piece, bool last = false) {
  return print({Kind::filled, stream_reader, 0, slot, last, 1, piece});
}
std::string returned(int slot, int input = 0) { return print({Kind::returned, StageId(input), 0, slot}); }

// The reason why a message is rejected.
std::string reason_of(auto&& body) {
  const std::string text = error_of(body);
  return text.substr(text.find("', but ") + 7);
}

// A stage without inputs during its run 1.
TestStage running_source(int slots, int lanes = 1, bool ordered = true) {
  TestStage stage(graph_of(0, slots, lanes, ordered));
  stage.start(1, {}, -1);
  return stage;
}
// A stage with lanes during its run 1. Its input holds pieces in the slots 0, 1, ...
TestStage running_lanes(int slots, int lanes, bool ordered, int pieces) {
  TestStage stage(graph_of(1, slots, lanes, ordered));
  stage.start(1, {0});
  stage.sent();
  for (int piece = 0; piece < pieces; ++piece) stage.fill(piece, piece);
  return stage;
}

TEST(StageGraph, AnInvalidGraphIsAnError) {
  const auto error = [](std::vector<Stage> stages) {
    return error_of([&] { verify(StageGraph{ById<StageId, Stage>(std::move(stages))}); });
  };
  const StageId zero(0), one(1);
  const Stage a = stage_of("a"), b = stage_of("b");
  EXPECT_EQ(error({a, b, stage_of("c", {one, zero})}), "no error");
  EXPECT_EQ(error({a, stage_of("b", {zero}, 4, 4, false)}), "no error");
  EXPECT_EQ(error({}), "stages: a pipeline must have at least one stage");
  EXPECT_EQ(error({stage_of("c", {}, 2, 0)}), "stages: c: the number of lanes must be at least 1, got 0");
  const char* few_slots = "stages: c: the number of slots must be at least the number of lanes, ";
  EXPECT_EQ(error({stage_of("c", {}, 0)}), cat(few_slots, "1, got 0"));
  EXPECT_EQ(error({stage_of("c", {}, 2, 3)}), cat(few_slots, "3, got 2"));
  EXPECT_EQ(error({a, b, stage_of("c", {zero, one}, 2, 2)}),
            "stages: c: a stage with several lanes must have at most one input, got 2");
  const char* late_input = "stages: c: an input must be an earlier stage, got stage ";
  EXPECT_EQ(error({stage_of("c", {zero})}), cat(late_input, 0));
  EXPECT_EQ(error({stage_of("c", {one}), b}), cat(late_input, 1));
  EXPECT_EQ(error({a, stage_of("c", {StageId()})}), cat(late_input, -1));
  const char* one_consumer = "stages: a must have one consumer";
  EXPECT_EQ(error({a, stage_of("b", {zero, zero})}), one_consumer);
  EXPECT_EQ(error({a, stage_of("b", {zero}), stage_of("c", {zero, one})}), one_consumer);
  EXPECT_EQ(error({a, b}), one_consumer);
}

TEST(StageMessage, AMessageIsPrintedAsASentence) {
  const StageId four(4);
  EXPECT_EQ(print({Kind::filled, four, 0, 1, false, 2, 7}), "filled slot 1 piece 7 of run 2 to stage 4");
  EXPECT_EQ(print({Kind::filled, stream_reader, 0, 1, true, 2, 7}),
            "filled slot 1 last piece 7 of run 2 to the reader");
  EXPECT_EQ(print({Kind::returned, four, 0, 3}), "returned slot 3 to stage 4");
  EXPECT_EQ(print({.kind = Kind::start, .to = four, .run = 5}), "start run 5 to stage 4");
  EXPECT_EQ(print({.kind = Kind::stop, .to = four, .run = 5}), "stop before run 5 to stage 4");
}

// An input of two slots, and the messages that it sends.
struct TestInput {
  void take(int slot, std::int64_t piece, bool last = false, std::int64_t run = 1) {
    input.take({Kind::filled, stream_reader, 2, slot, last, run, piece}, send);
  }
  Texts sent() { return std::exchange(texts, {}); }
  StageInput input{StageId(7), 2, 2};
  Texts texts;
  Send send{&texts};
};

TEST(StageInput, PiecesAreReadInOrderUntilTheLastOne) {
  TestInput test;
  EXPECT_FALSE(test.input.open());
  test.input.start(test.send);
  EXPECT_EQ(test.sent(), Texts{"start run 1 to stage 7"});
  test.take(1, 0);
  for (int piece = 1; piece < 6; ++piece) {
    test.take((piece + 1) % 2, piece, piece == 5);
    EXPECT_EQ(test.input.count(), 2u);
    const StagePiece read = test.input.pop();
    EXPECT_EQ(read.slot, piece % 2);
    EXPECT_FALSE(read.last);
  }
  EXPECT_TRUE(test.input.open()) << "the last piece has not been read";
  EXPECT_TRUE(test.input.pop().last);
  EXPECT_FALSE(test.input.open());
  EXPECT_EQ(test.sent(), Texts{}) << "the caller returns the slots";
  test.input.give_back(1, test.send);
  EXPECT_EQ(test.sent(), Texts{returned(1, 7)});
}

TEST(StageInput, PiecesOfEarlierRunsAreReturned) {
  TestInput test;
  test.input.start(test.send);
  test.take(1, 0);
  test.take(0, 1, true);
  test.sent();
  test.input.start(test.send);
  EXPECT_EQ(test.sent(), (Texts{returned(1, 7), returned(0, 7), "start run 2 to stage 7"}));
  test.take(1, 2);
  EXPECT_EQ(test.sent(), Texts{returned(1, 7)}) << "this piece of run 1 was on its way";
  test.take(0, 0, false, 2);
  EXPECT_EQ(test.input.count(), 1u);
  test.input.stop(test.send);
  EXPECT_EQ(test.sent(), (Texts{returned(0, 7), "stop before run 3 to stage 7"}));
  test.take(1, 1, false, 2);
  EXPECT_EQ(test.sent(), Texts{returned(1, 7)});
}

TEST(StageInput, BreakingTheProtocolIsAnError) {
  TestInput test;
  const auto reason = [&](int slot, int piece) { return reason_of([&] { test.take(slot, piece); }); };
  EXPECT_EQ(error_of([&] { test.take(0, 0, false, 0); }),
            "input 2 received 'filled slot 0 piece 0 of run 0 to the reader', but no run is open");
  test.input.start(test.send);
  EXPECT_EQ(reason(0, 1), "this is not the piece that the input expects next");
  test.take(0, 0);
  EXPECT_EQ(reason(1, 0), "this is not the piece that the input expects next");
  test.take(1, 1);
  EXPECT_EQ(reason(0, 2), "all slots of this input are filled");
  test.input.pop();
  test.take(0, 2, true);
  test.input.pop();
  EXPECT_EQ(reason(1, 3), "the last piece of the run was received before");
  test.input.pop();
  EXPECT_EQ(reason(0, 3), "no run is open");
}

TEST(StagePorts, AStageWaitsForTheInputThatItReadsNext) {
  TestStage stage(graph_of(2));
  EXPECT_FALSE(stage.ports.ready()) << "no run has started";
  stage.request(Kind::start, 1);
  stage.complete(stage.ports.begin(), Emission::nothing, 1, {1, 0});
  EXPECT_EQ(stage.sent(), (Texts{"start run 1 to stage 1", "start run 1 to stage 0"}));
  EXPECT_FALSE(stage.ports.ready());
  stage.fill(2, 0);
  EXPECT_FALSE(stage.ports.ready()) << "the stage reads input 1 next";
  stage.fill(1, 0, true, 1, 1);
  ASSERT_TRUE(stage.ports.ready());
  StageAct act = stage.ports.begin();
  EXPECT_EQ(act.input, 1);
  EXPECT_TRUE(act.piece.last);
  EXPECT_FALSE(stage.ports.ready()) << "the stage has one lane";
  stage.complete(act, Emission::nothing, 0);
  EXPECT_EQ(stage.sent(), Texts{returned(1, 1)});
  act = stage.ports.begin();
  EXPECT_EQ(act.input, 0);
  EXPECT_EQ(act.sequence, 1);
  stage.complete(act, Emission::element, -1);
  EXPECT_EQ(stage.sent(), (Texts{returned(2), filled(0, 0)}));
  EXPECT_TRUE(stage.ports.ready()) << "the next act reads no input";
}

TEST(StagePorts, AStageWaitsForAFreeSlot) {
  TestStage stage = running_source(2);
  for (int slot : {0, 1}) {
    const StageAct act = stage.ports.begin();
    EXPECT_EQ(act.slot, slot);
    stage.complete(act, Emission::element);
  }
  EXPECT_EQ(stage.sent(), (Texts{filled(0, 0), filled(1, 1)}));
  EXPECT_FALSE(stage.ports.ready());
  EXPECT_EQ(stage.ports.text(), "waits run 1 pieces 2; 0 of 2 slots free");
  stage.give_back(1);
  const StageAct act = stage.ports.begin();
  EXPECT_EQ(act.slot, 1);
  stage.complete(act, Emission::nothing);
  EXPECT_EQ(stage.sent(), Texts{});
  EXPECT_TRUE(stage.ports.ready()) << "an act that emits nothing keeps its slot free";
}

TEST(StagePorts, AStageWaitsForAFreeLane) {
  TestStage stage = running_lanes(3, 2, true, 2);
  stage.fill(2, 2, true);
  const StageAct first = stage.ports.begin();
  stage.ports.begin();
  EXPECT_FALSE(stage.ports.ready());
  EXPECT_EQ(stage.ports.text(), "runs 2 acts run 1 pieces 0; input 0 holds 1; reads input 0; 1 of 3 slots free");
  stage.complete(first, Emission::element);
  EXPECT_TRUE(stage.ports.ready());
}

TEST(StagePorts, AMessageGoesToTheInputOfTheConsumer) {
  StageGraph graph;
  const StageId a = graph.stages.add(stage_of("a")), b = graph.stages.add(stage_of("b"));
  graph.stages.add(stage_of("c", {a, b}));
  StagePorts ports(graph, b);
  StageMessage sent;
  const auto send = [&](const StageMessage& m) { sent = m; };
  ports.take({.kind = Kind::start, .to = b, .run = 1}, send);
  ports.complete(ports.begin(), {}, send);
  ports.complete(ports.begin(), {.emission = Emission::element}, send);
  EXPECT_EQ(print(sent), "filled slot 0 piece 0 of run 1 to stage 2");
  EXPECT_EQ(sent.port, 1);
}

TEST(StagePorts, OrderedLanesFillSlotsInTheOrderInWhichActsBegan) {
  TestStage stage = running_source(3, 3);
  const StageAct a = stage.ports.begin(), b = stage.ports.begin(), c = stage.ports.begin();
  stage.complete(c, Emission::element);
  stage.complete(b, Emission::nothing);
  EXPECT_EQ(stage.sent(), Texts{});
  EXPECT_EQ(stage.ports.free_slots(), 0) << "results that wait keep their slots";
  stage.complete(a, Emission::element);
  EXPECT_EQ(stage.sent(), (Texts{filled(0, 0), filled(2, 1)}));
  EXPECT_TRUE(stage.ports.is_free(1));
}

TEST(StagePorts, UnorderedLanesFillSlotsInTheOrderOfCompletionAndTheLastPieceWaits) {
  TestStage stage = running_lanes(4, 4, false, 2);
  stage.fill(2, 2, true);
  const StageAct a = stage.ports.begin(), b = stage.ports.begin(), c = stage.ports.begin();
  EXPECT_FALSE(stage.ports.ready()) << "the last piece has been read";
  stage.complete(c, Emission::last);
  EXPECT_EQ(stage.sent(), Texts{returned(2)});
  stage.complete(b, Emission::element);
  EXPECT_EQ(stage.sent(), (Texts{returned(1), filled(1, 0)}));
  stage.complete(a, Emission::element);
  EXPECT_EQ(stage.sent(), (Texts{returned(0), filled(0, 1), filled(2, 2, true)}));
  EXPECT_FALSE(stage.ports.active());
}

TEST(StagePorts, AfterAnEarlyLastPieceTheInputIsStoppedAndRunningResultsAreDropped) {
  TestStage stage = running_lanes(4, 3, true, 3);
  const StageAct a = stage.ports.begin(), b = stage.ports.begin(), c = stage.ports.begin();
  stage.complete(c, Emission::element);
  stage.complete(a, Emission::last);  // an error, for example
  EXPECT_EQ(stage.sent(), (Texts{returned(2), returned(0), filled(0, 0, true), "stop before run 2 to stage 0"}));
  EXPECT_TRUE(stage.ports.is_free(c.slot)) << "the result of c is dropped";
  stage.complete(b, Emission::element);
  EXPECT_EQ(stage.sent(), Texts{returned(1)});
  stage.fill(0, 3);
  EXPECT_EQ(stage.sent(), Texts{returned(0)}) << "a piece of the stopped run";
  stage.give_back(0);
  EXPECT_EQ(stage.ports.free_slots(), 4);
}

TEST(StagePorts, AnEarlyLastPieceOfUnorderedLanesDropsFurtherErrors) {
  TestStage stage = running_source(4, 4, false);
  const StageAct a = stage.ports.begin(), b = stage.ports.begin(), c = stage.ports.begin();
  stage.complete(b, Emission::last);
  EXPECT_FALSE(stage.ports.ready()) << "the run drains";
  stage.complete(c, Emission::last);
  EXPECT_EQ(stage.sent(), Texts{});
  stage.complete(a, Emission::nothing);
  EXPECT_EQ(stage.sent(), Texts{filled(1, 0, true)});
  EXPECT_EQ(stage.ports.free_slots(), 3);
}

TEST(StagePorts, AStartDropsTheResultsOfRunningActs) {
  for (bool ordered : {true, false}) {
    TestStage stage = running_lanes(3, 2, ordered, 3);
    stage.complete(stage.ports.begin(), Emission::element);
    const StageAct a = stage.ports.begin(), b = stage.ports.begin();
    stage.complete(b, ordered ? Emission::element : Emission::last);
    stage.request(Kind::start, 2);
    EXPECT_FALSE(stage.ports.ready()) << "an act of run 1 is running";
    stage.complete(a, Emission::element);
    EXPECT_EQ(stage.sent(), (Texts{returned(0), filled(0, 0), returned(2), returned(1)}));
    const StageAct act = stage.ports.begin();
    EXPECT_EQ(stage.ports.free_slots(), 2);
    stage.complete(act, Emission::nothing, 0, {0});
    EXPECT_EQ(stage.sent(), Texts{"start run 2 to stage 0"});
    stage.fill(2, 3);
    EXPECT_EQ(stage.sent(), Texts{returned(2)}) << "a piece of run 1";
    EXPECT_FALSE(stage.ports.ready());
    stage.fill(0, 0, false, 2);
    const StageAct element = stage.ports.begin();
    stage.complete(element, Emission::element);
    EXPECT_EQ(stage.sent().back(), cat("filled slot ", element.slot, " piece 0 of run 2 to the reader"));
  }
}

TEST(StagePorts, AStartDuringAStartBeginsOnlyTheLaterRun) {
  TestStage stage(graph_of(1));
  stage.request(Kind::start, 1);
  const StageAct act = stage.ports.begin();
  stage.request(Kind::start, 2);
  stage.complete(act, Emission::nothing, 0, {0});
  EXPECT_FALSE(stage.ports.active());
  const StageAct second = stage.ports.begin();
  EXPECT_EQ(second.run, 2);
  stage.complete(second, Emission::nothing, 0, {0});
  EXPECT_TRUE(stage.ports.active());
  EXPECT_EQ(stage.sent(), (Texts{"start run 1 to stage 0", "start run 2 to stage 0"}));
}

TEST(StagePorts, AStopEndsTheRunsOfOpenInputs) {
  TestStage stage(graph_of(2));
  stage.start(1, {0});
  EXPECT_EQ(stage.sent(), Texts{"start run 1 to stage 0"});
  stage.fill(0, 0);
  stage.request(Kind::stop, 2);
  const StageAct act = stage.ports.begin();
  EXPECT_EQ(act.kind, StageAct::Kind::stop);
  stage.complete(act, Emission::nothing);
  EXPECT_EQ(stage.sent(), (Texts{returned(0), "stop before run 2 to stage 0"})) << "input 1 is closed";
  EXPECT_FALSE(stage.ports.ready());
  EXPECT_EQ(stage.ports.text(),
            "waits run 2 ended pieces 0; input 0 holds 0 ended; input 1 holds 0 ended; 2 of 2 slots free");
  stage.start(3, {1}, 1);
  EXPECT_EQ(stage.sent(), Texts{"start run 1 to stage 1"});
}

TEST(StagePorts, BreakingTheProtocolIsAnError) {
  TestStage stage(graph_of(1));
  EXPECT_EQ(error_of([&] { stage.ports.begin(); }),
            "stage 1 begins an act although it is not ready: waits run 0 ended pieces 0; input 0 holds 0 ended; 2 of 2 "
            "slots free");
  EXPECT_EQ(error_of([&] { stage.fill(0, 0, false, 1, 1); }),
            "stage 1 received 'filled slot 0 piece 0 of run 1 to stage 1', but there is no such input");
  EXPECT_EQ(reason_of([&] { stage.fill(0, 0, false, 1, -1); }), "there is no such input");
  for (int slot : {-1, 2}) EXPECT_EQ(reason_of([&] { stage.give_back(slot); }), "there is no such slot");
  stage.start(1, {0});
  stage.fill(0, 0);
  const StageAct act = stage.ports.begin();
  EXPECT_EQ(reason_of([&] { stage.give_back(0); }), "the consumer does not hold this slot") << "an act is writing it";
  stage.complete(act, Emission::element, 0);
  stage.give_back(0);
  EXPECT_EQ(reason_of([&] { stage.give_back(0); }), "the consumer does not hold this slot") << "it was returned before";
  EXPECT_EQ(reason_of([&] { stage.request(Kind::start, 1); }), "this run has begun already");
  EXPECT_EQ(reason_of([&] { stage.request(Kind::stop, 0); }), "this run has begun already");
}

TEST(StagePorts, AStageMustNotReadAnInputThatDoesNotExistOrHasEnded) {
  TestStage missing(graph_of(1)), closed(graph_of(1)), ended(graph_of(1));
  EXPECT_EQ(error_of([&] { missing.start(1, {0}, 1); }), "stage 1 reads input 1, but has 1 inputs");
  EXPECT_EQ(error_of([&] { closed.start(1, {}, 0); }), "stage 1 reads input 0, whose run has ended");
  ended.start(1, {0});
  ended.fill(0, 0, true);
  EXPECT_EQ(error_of([&] { ended.complete(ended.ports.begin(), Emission::nothing, 0); }),
            "stage 1 reads input 0, whose run has ended");
}

}  // namespace
}  // namespace karez::plan
