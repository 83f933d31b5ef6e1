// Tests of merge_updates on hand-written calls. Whether updates may move to the position of the last update depends on
// the bytes that calls access, not on the ids of values.
#include <gtest/gtest.h>

#include "karez/passes/lowering/fuse/rules.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

// A graph with one node per op, and local values and calls that the tests build.
struct ActorCalls {
  Graph graph;
  Builder b{graph, table()};
  ById<LocalId, LocalValue> locals;
  std::vector<LocalCall> calls;
  NodeId sgd_node, exp_node, adam_node;

  ActorCalls() {
    TensorType vec{DType::f32, {4}};
    ValueId x = build::input(b, "x", vec), lr = build::input(b, "lr", {DType::f32, {}}),
            step = build::input(b, "step", {DType::i64, {}});
    sgd_node = graph.value(build::sgd(b, x, x, x, lr, {.momentum = 0.9}).w).producer;
    adam_node = graph.value(build::adam(b, x, x, x, x, lr, step).w).producer;
    exp_node = graph.value(build::exp(b, x)).producer;
  }
  LocalId value(Shape shape = {4}, DType dtype = DType::f32) {
    LocalValue value;
    value.view = View(dtype, std::move(shape));
    LocalId id = locals.add(std::move(value));
    return locals[id].root = id;
  }
  LocalId window(LocalId value) { return locals.add(locals[value]); }  // has the same root as `value`
  void call(NodeId node, std::vector<LocalId> in, std::vector<LocalId> out) {
    LocalCall call;
    call.node = node;
    call.spec.op = graph.node(node).op->name;
    call.kernel = "any." + call.spec.op;
    for (LocalId v : in) call.spec.in.push_back(locals[v].view);
    for (LocalId v : out) call.spec.out.push_back(locals[v].view);
    call.in = std::move(in), call.out = std::move(out);
    calls.push_back(std::move(call));
  }
  // Overwrites w and m through windows, as `localise` does for updates in place.
  void sgd(LocalId w, LocalId m, LocalId g, LocalId lr) { call(sgd_node, {w, m, g, lr}, {window(w), window(m)}); }
  int merged() {
    ById<LocalId, bool> crosses(locals.size(), false);
    SegmentCalls segment(graph, locals, testing::catalog(), 2, calls, crosses);
    int changes = merge_updates(segment);
    segment.remove_dropped();
    return changes;
  }
};

TEST(MergeUpdates, TwoUpdatesInPlaceAreMerged) {
  ActorCalls a;
  LocalId lr = a.value({}), w = a.value(), m = a.value(), g = a.value(), v = a.value(), n = a.value(), h = a.value();
  a.sgd(w, m, g, lr), a.sgd(v, n, h, lr);
  EXPECT_EQ(a.merged(), 1);
  ASSERT_EQ(a.calls.size(), 1u);
  EXPECT_EQ(a.calls[0].in, (std::vector<LocalId>{w, m, g, v, n, h, lr}));
  EXPECT_EQ(a.calls[0].out.size(), 4u);
}

TEST(MergeUpdates, UpdatesAreMergedOnlyWithTheSameLearningRateAndStepCounter) {
  for (int other_rate = 0; other_rate < 2; ++other_rate)
    for (int other_step = 0; other_step < 2; ++other_step) {
      ActorCalls a;
      LocalId lr[] = {a.value({}), a.value({})}, step[] = {a.value({}, DType::i64), a.value({}, DType::i64)};
      for (int k = 0; k < 2; ++k) {
        LocalId w = a.value(), m = a.value(), v = a.value(), g = a.value();
        a.call(a.adam_node, {w, m, v, g, lr[k * other_rate], step[k * other_step]},
               {a.window(w), a.window(m), a.window(v)});
      }
      EXPECT_EQ(a.merged(), other_rate + other_step == 0 ? 1 : 0)
          << "other_rate " << other_rate << ", other_step " << other_step;
    }
}

TEST(MergeUpdates, UpdatesAreNotMergedIfACallBetweenThemReadsTheFirstResultThroughAWindow) {
  ActorCalls a;
  LocalId lr = a.value({}), w = a.value(), m = a.value(), g = a.value(), v = a.value(), n = a.value(), h = a.value();
  a.sgd(w, m, g, lr);
  a.call(a.exp_node, {a.window(m)}, {h});
  a.sgd(v, n, h, lr);
  EXPECT_EQ(a.merged(), 0);
}

TEST(MergeUpdates, UpdatesAreNotMergedIfACallBetweenThemOverwritesAnOperandOrResultOfTheFirst) {
  for (int which = 0; which < 3; ++which) {
    ActorCalls a;
    LocalId lr = a.value({}), w = a.value(), m = a.value(), g = a.value(), v = a.value(), n = a.value(), h = a.value(),
            x = a.value();
    a.sgd(w, m, g, lr);
    a.call(a.exp_node, {x}, {a.window(which == 0 ? g : which == 1 ? w : x)});
    a.sgd(v, n, h, lr);
    EXPECT_EQ(a.merged(), which == 2 ? 1 : 0) << "case " << which;
  }
}

TEST(MergeUpdates, UpdatesAreNotMergedIfTheSecondReadsTheFirstResult) {
  ActorCalls a;
  LocalId lr = a.value({}), w = a.value(), m = a.value(), g = a.value(), v = a.value(), n = a.value();
  a.sgd(w, m, g, lr), a.sgd(v, n, a.window(w), lr);
  EXPECT_EQ(a.merged(), 0);
}

TEST(MergeUpdates, OnlyUpdatesOfManyElementsUseTheTeam) {
  for (std::int64_t elements : {8191, 8192}) {  // elements of each of two updates; the limit is 16,384 in total
    ActorCalls a;
    LocalId lr = a.value({});
    for (int k = 0; k < 2; ++k) {
      LocalId w = a.value({elements}), m = a.value({elements}), g = a.value({elements});
      a.sgd(w, m, g, lr);
    }
    EXPECT_EQ(a.merged(), 1);
    EXPECT_EQ(a.calls[0].spec.team, elements == 8192 ? 2 : 1);
  }
}

}  // namespace
}  // namespace karez::passes
