// Tests of the verifier's errors about inputs, fetches and slices.
#include <gtest/gtest.h>

#include <functional>

#include "karez/base/test_error.h"
#include "karez/base/test_golden.h"
#include "karez/plan/acts.h"
#include "karez/plan/dry_run.h"
#include "karez/plan/plan.h"
#include "karez/plan/test_plan_builder.h"

namespace karez::plan {
namespace {

const View four(DType::f32, {4});

// A plan with an input, a compute actor that reads the input's register twice, and a fetch.
struct InputFetchPlan {
  PlanBuilder s;
  ActorId in, twice, out;
  RegisterId x, y;
  InputFetchPlan() {
    in = s.actor("in", 0, 0, BodyKind::input);
    twice = s.actor("twice");
    out = s.actor("out", 0, 0, BodyKind::fetch);
    s.start(in);
    x = s.edge(in, {twice}, 2, 16);
    y = s.edge(twice, {out}, 1, 16);
    s.done(out);
    s.call(twice, "test.sum", {in_register(x, four), in_register(x, four)}, {in_register(y, four)});
    bind(in, "x", x);
    s.plan.actors[out].binding = "y";
    s.plan.actors[out].bound = {in_register(y, four)};
  }
  void bind(ActorId actor, std::string name, RegisterId reg) {
    Actor& a = s.plan.actors[actor];
    a.binding = std::move(name);
    a.bound = {in_register(reg, four)};
    a.slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
  }
};

TEST(VerifyBindings, ActorsThatServeALaunchMustActBetweenItsStartAndItsEnd) {
  EXPECT_NO_THROW(verify(InputFetchPlan().s.plan));

  // The start register leads to another actor, so the input would read the feed of a launch that has not begun.
  InputFetchPlan unfed_input;
  unfed_input.s.plan.actors[unfed_input.in].inputs.clear();
  ActorId start_actor = unfed_input.s.actor("other");
  unfed_input.s.plan.registers[RegisterId(0)].consumers = {start_actor};
  unfed_input.s.plan.actors[start_actor].inputs.push_back({RegisterId(0), 1});
  unfed_input.s.done(start_actor);
  EXPECT_NE(error_of([&] { verify(unfed_input.s.plan); })
                .find("actor a0 'in' (in at sketch.cc:1): its body is input, but no start register leads to it, so "
                      "it could act before a launch begins"),
            std::string::npos)
      << error_of([&] { verify(unfed_input.s.plan); });

  InputFetchPlan early_fetch = InputFetchPlan();  // only the actor `extra` waits for the start of the launch
  early_fetch.s.plan.actors[early_fetch.in].body = BodyKind::compute;
  Actor& in = early_fetch.s.plan.actors[early_fetch.in];
  in.binding.clear(), in.bound.clear(), in.slices.clear(), in.inputs.clear();
  ActorId extra = early_fetch.s.actor("extra");
  early_fetch.s.plan.registers[RegisterId(0)].consumers = {extra};
  early_fetch.s.plan.actors[extra].inputs.push_back({RegisterId(0), 1});
  early_fetch.s.done(extra);
  EXPECT_NE(error_of([&] {
              verify(early_fetch.s.plan);
            }).find("'out' (out at sketch.cc:1): its body is fetch, but no start register leads to it"),
            std::string::npos);

  InputFetchPlan unawaited_fetch;  // the launch ends after `twice`, although the fetch may not have run yet
  unawaited_fetch.s.plan.actors[unawaited_fetch.out].outputs.clear();
  RegisterId done_register(unawaited_fetch.s.plan.registers.size() - 1);
  unawaited_fetch.s.plan.registers[done_register].producer = unawaited_fetch.twice;
  unawaited_fetch.s.plan.actors[unawaited_fetch.twice].outputs.push_back({done_register, 1});
  EXPECT_NE(error_of([&] { verify(unawaited_fetch.s.plan); })
                .find("actor a2 'out' (out at sketch.cc:1) leads to no done register: the launch could end before this "
                      "actor does"),
            std::string::npos);

  // A compute actor without a done register: a variable that it writes would change while the host reads the variable.
  InputFetchPlan side_writer;
  ActorId writer = side_writer.s.actor("writer");
  side_writer.s.edge(side_writer.in, {writer});
  EXPECT_NE(
      error_of([&] { verify(side_writer.s.plan); }).find("'writer' (writer at sketch.cc:1) leads to no done register"),
      std::string::npos);
}

TEST(VerifyBindings, BindingsMustMatchTheFeedsAndOutputsOfALaunch) {
  InputFetchPlan no_operands;
  no_operands.s.plan.actors[no_operands.in].bound.clear();
  no_operands.s.plan.actors[no_operands.in].slices.clear();
  EXPECT_NE(
      error_of([&] { verify(no_operands.s.plan); }).find("'in' (in at sketch.cc:1) reads input 'x' without an operand"),
      std::string::npos);

  InputFetchPlan two_fetches;
  ActorId second = two_fetches.s.actor("second", 0, 0, BodyKind::fetch);
  two_fetches.s.plan.registers[two_fetches.y].consumers.push_back(second);
  two_fetches.s.plan.actors[second].inputs.push_back({two_fetches.y, 1});
  two_fetches.s.plan.actors[second].binding = "y";
  two_fetches.s.plan.actors[second].bound = {in_register(two_fetches.y, four)};
  two_fetches.s.done(second);
  EXPECT_NE(
      error_of([&] {
        verify(two_fetches.s.plan);
      }).find("'second' (second at sketch.cc:1) and actor a2 'out' (out at sketch.cc:1) both fetch 'y' on device 0"),
      std::string::npos);
  two_fetches.s.plan.actors[second].binding = "z";
  EXPECT_NO_THROW(verify(two_fetches.s.plan));

  InputFetchPlan repeated_fetch;  // all actors act three times
  for (RegisterId r : {RegisterId(0), RegisterId(3)}) {
    const Register& reg = repeated_fetch.s.plan.registers[r];
    if (reg.producer == session_actor) repeated_fetch.s.plan.actors[repeated_fetch.in].inputs[0].period = 3;
    else repeated_fetch.s.plan.actors[repeated_fetch.out].outputs[0].period = 3;
  }
  EXPECT_NE(error_of([&] {
              verify(repeated_fetch.s.plan);
            }).find("'out' (out at sketch.cc:1) acts 3 times in a launch, but must fetch 'y' exactly once"),
            std::string::npos);

  InputFetchPlan uneven_reads;  // the second actor that reads input x acts twice in a launch, the first one acts once
  ActorId second_input = uneven_reads.s.actor("more", 0, 0, BodyKind::input), sink = uneven_reads.s.actor("sink");
  uneven_reads.s.start(second_input, 2);
  RegisterId reg = uneven_reads.s.edge(second_input, {sink}, 1, 16);
  uneven_reads.s.done(sink, 2);
  uneven_reads.bind(second_input, "x", reg);
  EXPECT_NE(error_of([&] { verify(uneven_reads.s.plan); })
                .find("'more' (more at sketch.cc:1) reads input 'x' 2 times in a launch, but actor a0 'in' (in at "
                      "sketch.cc:1) reads it once"),
            std::string::npos);
  uneven_reads.bind(second_input, "w", reg);
  EXPECT_NO_THROW(verify(uneven_reads.s.plan));
}

TEST(VerifyBindings, PartsOfAnOutputMustCoverItAndBeEqualOrDisjoint) {
  struct Parts {
    PlanBuilder s = PlanBuilder(2);
    ActorId out[2];
    Parts() {
      for (int d = 0; d < 2; ++d) {
        ActorId work = s.actor(cat("work.", d), 0, d);
        out[d] = s.actor(cat("out.", d), 0, d, BodyKind::fetch);
        s.start(work);
        RegisterId reg = s.edge(work, {out[d]}, 1, 16);
        s.done(out[d]);
        s.plan.actors[out[d]].binding = "y";
        s.plan.actors[out[d]].bound = {in_register(reg, four)};
      }
    }
    std::string error_with(std::int64_t first, std::int64_t second, std::int64_t output_size,
                           std::int64_t second_output_size = 0) {
      for (int d = 0; d < 2; ++d)
        s.plan.actors[out[d]].slices = {
            Attrs{{"begin", Ints{d == 0 ? first : second}},
                  {"shape", Ints{d == 1 && second_output_size > 0 ? second_output_size : output_size}}}};
      return error_of([&] { verify(s.plan); });
    }
  } parts;
  EXPECT_NO_THROW(verify(parts.s.plan)) << "both devices may fetch the complete output";
  EXPECT_EQ(parts.error_with(0, 4, 8), "no error");
  EXPECT_EQ(parts.error_with(4, 0, 8), "no error");
  EXPECT_NE(parts.error_with(0, 2, 6).find("fetch parts of 'y' that overlap and differ"), std::string::npos);
  EXPECT_EQ(parts.error_with(0, 0, 8), "plan 'sketch': the fetches of 'y' cover 4 of its 8 elements");
  EXPECT_EQ(parts.error_with(0, 5, 9), "plan 'sketch': the fetches of 'y' cover 8 of its 9 elements");
  EXPECT_NE(
      parts.error_with(0, 4, 7).find("a slice {begin=[4], shape=[7]} of shape [4] is not within the logical tensor"),
      std::string::npos);
  EXPECT_NE(
      parts.error_with(0, 4, 8, 9)
          .find("fetches 'y' as a part of f32[9], but actor a1 'out.0' (out.0 at sketch.cc:1) fetches it as a part of "
                "f32[8]"),
      std::string::npos);
  parts.s.plan.world = 2;
  EXPECT_EQ(parts.error_with(0, 0, 8), "no error") << "another rank may fetch the remaining elements";
}

TEST(VerifyBindings, TheActsOfAnInputMustBeAMultipleOfItsSetsOfSlices) {
  InputFetchPlan input_fetch;
  Actor& in = input_fetch.s.plan.actors[input_fetch.in];
  in.slices.push_back(in.slices[0]);
  EXPECT_NE(error_of([&] {
              verify(input_fetch.s.plan);
            }).find("acts once in a launch, which is not a multiple of its 2 sets of slices"),
            std::string::npos);
  in.slices[1].set("shape", Ints{8});
  EXPECT_NE(error_of([&] {
              verify(input_fetch.s.plan);
            }).find("slices of operand 0 are of logical tensors with different shapes, [4] and [8]"),
            std::string::npos);
  in.slices[1].set("begin", Ints{6});
  EXPECT_NE(error_of([&] { verify(input_fetch.s.plan); }).find("is not within the logical tensor"), std::string::npos);
}

// An InputFetchPlan whose register y is external.
struct ExternalPlan : InputFetchPlan {
  BlockId block;
  ExternalPlan() {
    block = s.block(BlockKind::external, 0, 16, "y");
    Register& r = s.plan.registers[y];
    r.block = block, r.offset = r.stride = 0;
  }
  std::string error() const {
    return error_of([&] { verify(s.plan); });
  }
};

TEST(VerifyBindings, ExternalRegistersMustBePartsOfResults) {
  EXPECT_EQ(ExternalPlan().error(), "no error");
  const auto reports = [](const ExternalPlan& p, const std::string& text) {
    EXPECT_NE(p.error().find(text), std::string::npos) << p.error();
  };
  ExternalPlan of_input, other_name, shorter, column, direct, shared, size, linked;
  other_name.s.plan.blocks[other_name.block].name = "z";
  reports(other_name, "external block b2 'z' must be fetched as 'z', with all its bytes in row-major order");
  shorter.s.plan.actors[shorter.out].bound[0].view = View(DType::f32, {3});
  reports(shorter, "must be fetched as 'y', with all its bytes in row-major order");
  column.s.plan.actors[column.out].bound[0].view = View(DType::f32, {2, 2}, {1, 2});
  reports(column, "must be fetched as 'y', with all its bytes in row-major order");
  direct.s.plan.actors[direct.twice].calls[0].in[0] = in_block(direct.block, four);
  reports(direct, "is in the external block b2; only registers may be in external blocks");
  const ActorId more = shared.s.actor("more", 0, 0, BodyKind::fetch);
  const RegisterId other = shared.s.edge(shared.twice, {more}, 1, 16);
  shared.bind(more, "z", other), shared.s.done(more);
  shared.s.plan.registers[other].block = shared.block;
  reports(shared, "register r2 is in the same block");
  of_input.s.plan.registers[of_input.x].block = of_input.s.block(BlockKind::external, 0, 16, "y");
  reports(of_input, "must be filled by a compute actor or a collective, got actor a0 'in'");
  size.s.plan.blocks[size.block].bytes = 32;
  reports(size, "must occupy the 32 bytes of the block, got 16 bytes at offset 0");
  linked.s.plan.links.push_back({linked.y, {1, 0}});
  reports(linked, "must not be sent by a link");

  ExternalPlan early;  // the start register leads to the fetch, but not to the actor that writes the result
  Actor& in = early.s.plan.actors[early.in];
  in.body = BodyKind::compute;
  in.binding.clear(), in.bound.clear(), in.slices.clear(), in.inputs.clear();
  early.s.plan.registers[RegisterId(0)].consumers = {early.out};
  early.s.plan.actors[early.out].inputs.push_back({RegisterId(0), 1});
  reports(early, "'twice' (twice at sketch.cc:1) writes a result, but no start register leads to it");
}

}  // namespace
}  // namespace karez::plan
