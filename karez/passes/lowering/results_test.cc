// Tests of the results pass: which registers become external, and which keep memory of the plan.
#include "karez/passes/lowering/results.h"

#include <gtest/gtest.h>

#include "karez/plan/test_plan_builder.h"

namespace karez::passes {
namespace {

const View matrix(DType::f32, {2, 8});

// x -> work -> out, with `fills` acts of `work` for each act of the fetch.
struct FetchPlan {
  PlanBuilder s;
  ActorId in = s.actor("in", 0, 0, BodyKind::input), work = s.actor("work"),
          out = s.actor("out", 0, 0, BodyKind::fetch);
  RegisterId x, y;
  explicit FetchPlan(int slots = 1, int acts = 1, int period = 1) {
    s.start(in, acts);
    x = s.edge(in, {work}, 2, matrix.bytes());
    y = s.edge(work, {out}, slots, matrix.bytes(), period);
    s.done(out);
    s.call(work, "test.sum", {in_register(x, matrix)}, {in_register(y, matrix)});
    fetch(out, "y", y, matrix);
    Actor& reader = s.plan.actors[in];
    reader.binding = "x", reader.bound = {in_register(x, matrix)};
    reader.slices = {Attrs{{"begin", Ints{0, 0}}, {"shape", Ints{2, 8}}}};
  }
  void fetch(ActorId actor, std::string name, RegisterId reg, const View& view) {
    s.plan.actors[actor].binding = std::move(name), s.plan.actors[actor].bound = {in_register(reg, view)};
  }
};

const plan::Block& block_of(const Plan& plan, RegisterId reg) { return plan.block(plan.reg(reg).block); }

TEST(Results, ARegisterThatIsFetchedCompletelyIsExternal) {
  for (int slots : {1, 3}) {
    FetchPlan p(slots);
    const Plan after = results(p.s.plan);
    EXPECT_EQ(block_of(after, p.y), (plan::Block{BlockKind::external, DeviceId(0), matrix.bytes(), "y", ""}));
    EXPECT_EQ(block_of(after, p.x).kind, BlockKind::reg);  // no part of the plan computes it
    EXPECT_EQ(after.reg(p.y).slots, slots);
    EXPECT_EQ(planned_bytes(after)[DeviceId(0)], planned_bytes(p.s.plan)[DeviceId(0)]);  // the old block is still there
    EXPECT_EQ(parse_plan(print(after)), after);
    EXPECT_EQ(results(after), after);
  }
}

TEST(Results, OnlyTheFirstOfTwoFetchesOfARegisterIsInPlace) {
  FetchPlan p;
  const ActorId second = p.s.actor("second", 0, 0, BodyKind::fetch);
  p.s.plan.registers[p.y].consumers.push_back(second);
  p.s.plan.actors[second].inputs.push_back({p.y, 1});
  p.s.done(second);
  p.fetch(second, "z", p.y, matrix);
  const Plan after = results(p.s.plan);
  EXPECT_EQ(block_of(after, p.y).name, "y");
  EXPECT_EQ(after.blocks.size(), p.s.plan.blocks.size() + 1);
}

TEST(Results, ARegisterThatAnActorFillsOverSeveralActsIsExternal) {
  FetchPlan sum(1, 3, 3);
  EXPECT_EQ(block_of(results(sum.s.plan), sum.y).kind, BlockKind::external);
}

TEST(Results, OtherFetchesStillCopy) {
  FetchPlan part, column, turned, of_input, linked;
  part.fetch(part.out, "y", part.y, View(DType::f32, {1, 8}));
  turned.fetch(turned.out, "y", turned.y, View(DType::f32, {8, 2}, {1, 8}));
  column.s.plan.actors[column.out].bound[0].offset = 32;
  column.s.plan.actors[column.out].bound[0].view = View(DType::f32, {1, 8});
  linked.s.plan.links.push_back({linked.y, {1, 0}});
  for (const FetchPlan* p : {&part, &column, &turned, &linked}) EXPECT_EQ(results(p->s.plan), p->s.plan);

  of_input.s.plan.registers[of_input.x].consumers.push_back(of_input.out);
  of_input.s.plan.actors[of_input.out].inputs.push_back({of_input.x, 1});
  of_input.fetch(of_input.out, "y", of_input.x, matrix);
  EXPECT_EQ(results(of_input.s.plan), of_input.s.plan);
}

}  // namespace
}  // namespace karez::passes
