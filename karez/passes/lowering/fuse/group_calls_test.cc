// Tests of groups of equal calls: which calls become one, where it runs, and calls that must stay where they are.
#include <gtest/gtest.h>

#include "karez/base/text.h"
#include "karez/passes/compile.h"
#include "karez/passes/lowering/fuse/rules.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"
#include "karez/plan/call_group.h"

namespace karez::passes {
namespace {

using testing::table;

struct Program {
  Graph graph;
  Builder b{graph, table()};
  testing::AnyCatalog catalog;
  CompileOptions options;

  Program() { options.team = 2; }
  ValueId input(const std::string& name, Shape shape = {8, 6}, DType dtype = DType::f32) {
    return build::input(b, name, {dtype, std::move(shape)});
  }
  void output(ValueId value, const std::string& name) { graph.outputs.push_back({name, value}); }
  Compilation compiled() {
    Compilation c = testing::compilation(graph);
    c.catalog = &catalog;
    c.options = options;
    compile(c);
    return c;
  }
  // The calls in order: "3 x max(x0, 0); matmul".
  std::string calls() {
    std::vector<std::string> out;
    const Compilation c = compiled();
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls) {
        const int calls = plan::calls_of(call.spec.attrs);
        out.push_back(cat(calls > 1 ? cat(calls, " x ") : "",
                          call.spec.op == "pointwise" ? call.spec.attrs.text("expr") : call.spec.op));
      }
    return join(out, "; ");
  }
};

TEST(GroupCalls, SmallCallsWithEqualViewsBecomeOneCall) {
  Program p;
  for (int i = 0; i < 3; ++i) p.output(build::add(p.b, p.input(cat("x", i)), p.input(cat("y", i))), cat("z", i));
  p.output(build::add(p.b, p.input("v", {7}), p.input("w", {7})), "other shape");
  p.output(build::add(p.b, p.input("h", {8, 6}, DType::f64), p.input("k", {8, 6}, DType::f64)), "other dtype");
  EXPECT_EQ(p.calls(), "3 x x0 + x1; x0 + x1; x0 + x1");
  const Compilation c = p.compiled();
  for (const Actor& actor : c.plan.actors)
    for (const Call& call : actor.calls)
      if (call.attrs.has("calls")) {
        EXPECT_EQ(call.in.size(), 6u);
        EXPECT_EQ(call.out.size(), 3u);
        EXPECT_EQ(call.where.substr(0, 7), "3 x add") << call.where;
        EXPECT_EQ(call.team, 1);
      }
}

TEST(GroupCalls, CallsThatDependOnEachOtherAreInDifferentGroups) {
  Program p;
  for (int i = 0; i < 2; ++i) {
    ValueId x = build::exp(p.b, p.input(cat("x", i))), y = build::exp(p.b, x);
    p.output(x, cat("x", i)), p.output(y, cat("y", i));
  }
  EXPECT_EQ(p.calls(), "2 x exp(x0); 2 x exp(x0)");
}

TEST(GroupCalls, ACallJoinsAGroupOnlyIfItsOperandsExistThere) {
  Program p;
  ValueId x = p.input("x"), square = build::matmul(p.b, build::reshape(p.b, x, {6, 8}), x);  // 6 x 6
  p.output(build::exp(p.b, p.input("y", {6, 6})), "a");
  p.output(build::exp(p.b, square), "b");
  p.output(build::exp(p.b, p.input("z", {6, 6})), "c");
  // The group of `a` and `c` comes before the product; or the product comes first, and all three are a group.
  const std::string calls = p.calls();
  EXPECT_TRUE(calls == "2 x exp(x0); matmul; exp(x0)" || calls == "matmul; 3 x exp(x0)") << calls;
}

TEST(GroupCalls, LargeCallsStay) {
  for (const std::int64_t n : {1365, 1366}) {  // 12 bytes for each element, at most 16 KB in all
    Program p;
    for (int i = 0; i < 2; ++i)
      p.output(build::add(p.b, p.input(cat("x", i), {n}), p.input(cat("y", i), {n})), cat("z", i));
    EXPECT_EQ(p.calls(), n == 1365 ? "2 x x0 + x1" : "x0 + x1; x0 + x1");
  }
}

TEST(GroupCalls, ProductsOfOneOperandBecomeOneCallIfThereIsATeam) {
  for (const int team : {1, 2}) {
    Program p;
    p.options.team = team;
    ValueId x = p.input("x", {32, 64});
    for (const char* name : {"q", "k", "v"}) {
      ValueId w = testing::parameter(p.b, name, {DType::f32, {64, 64}}),
              bias = testing::parameter(p.b, cat(name, ".bias"), {DType::f32, {64}});
      p.output(build::add(p.b, build::matmul(p.b, x, w), build::broadcast(p.b, bias, {32, 64}, {1})), name);
    }
    EXPECT_EQ(p.calls(), team == 2 ? "3 x matmul" : "matmul; matmul; matmul");
    const Compilation c = p.compiled();
    for (const Actor& actor : c.plan.actors)
      for (const Call& call : actor.calls) {
        EXPECT_TRUE(call.attrs.flag("bias", false));
        EXPECT_EQ(call.team, team);
        EXPECT_EQ(call.in.size(), team == 2 ? 9u : 3u);
      }
  }
}

TEST(GroupCalls, LargeProductsAndProductsOfOtherSizesStay) {
  Program p;
  ValueId x = p.input("x", {256, 256});
  for (const std::int64_t n : {64, 128, 256, 256}) {
    ValueId w = testing::parameter(p.b, cat("w", p.graph.outputs.size()), {DType::f32, {256, n}});
    p.output(build::matmul(p.b, x, w), cat("y", p.graph.outputs.size()));
  }
  EXPECT_EQ(p.calls(), "matmul; matmul; matmul; matmul");  // 256^3 multiplications are above the limit
}

// 7 rows on 3 devices: the part on device 0 has as many rows as another operand, which every device has completely. A
// group of both products on device 0 alone could give other bits than that of the second product on the other devices.
TEST(GroupCalls, ProductsThatAreEqualOnlyOnOneDeviceAreNotGrouped) {
  for (const std::int64_t rows : {7, 3}) {
    Graph graph;
    Builder b(graph, table());
    ById<LocalId, LocalValue> values;
    std::vector<LocalCall> calls;
    for (const std::int64_t logical_rows : {rows, std::int64_t{3}}) {
      const ValueId x = build::input(b, cat("x", calls.size()), {DType::f32, {logical_rows, 32}}),
                    w = build::input(b, cat("w", calls.size()), {DType::f32, {32, 32}});
      LocalCall call;
      call.node = graph.value(build::matmul(b, x, w)).producer;
      call.spec.op = "matmul", call.kernel = "any.matmul";
      const auto add = [&](std::vector<LocalId>& ids, std::vector<View>& views, Shape shape) {
        LocalValue value;
        value.view = View(DType::f32, std::move(shape));
        views.push_back(value.view);
        ids.push_back(values.add(value));
        values[ids.back()].root = ids.back();
      };
      add(call.in, call.spec.in, {3, 32}), add(call.in, call.spec.in, {32, 32}), add(call.out, call.spec.out, {3, 32});
      calls.push_back(std::move(call));
    }
    const ById<LocalId, bool> crosses(values.size(), false);
    SegmentCalls segment(graph, values, testing::catalog(), 2, calls, crosses);
    EXPECT_EQ(group_products(segment), rows == 3 ? 1 : 0);
  }
}

// The calls exp, `between` and exp of an actor. Both exp write variables if `writes`. If `is_last`, the node of the
// last one must not begin before another node has ended. Returns the number of groups.
int groups_around(const char* between, bool writes, bool is_last = false) {
  Graph graph;
  Builder b(graph, table());
  const ValueId x = build::input(b, "x", {DType::f32, {4}}), y = build::exp(b, x), z = build::tanh(b, y);
  const NodeId middle = graph.value(build::exp(b, x)).producer;
  graph.node(middle).op = &table().at(between);
  ById<LocalId, LocalValue> values;
  std::vector<LocalCall> calls;
  for (const char* op : {"pointwise", between, "pointwise"}) {
    LocalCall call;
    call.node = calls.size() == 1 ? middle : graph.value(is_last && calls.size() == 2 ? z : y).producer;
    call.spec.op = op, call.kernel = cat("any.", op);
    call.spec.attrs.set("expr", "exp(x0)");
    for (auto [ids, views] : {std::pair(&call.in, &call.spec.in), std::pair(&call.out, &call.spec.out)}) {
      LocalValue value;
      value.view = View(DType::f32, {4});
      if (writes && ids == &call.out && op != between) value.variable = static_cast<int>(calls.size());
      ids->push_back(values.add(value));
      values[ids->back()].root = ids->back();
      views->push_back(value.view);
    }
    calls.push_back(std::move(call));
  }
  if (is_last) graph.node(calls.back().node).after = {calls[1].node};
  const ById<LocalId, bool> crosses(values.size(), false);
  SegmentCalls segment(graph, values, testing::catalog(), 2, calls, crosses);
  return group_calls(segment);
}

TEST(GroupCalls, AnUpdateIsNotMovedBeforeACallThatMayFail) {
  EXPECT_EQ(groups_around("gather", true), 0);
  EXPECT_EQ(groups_around("gather", false), 1);
  EXPECT_EQ(groups_around("copy", true), 1);
}

TEST(GroupCalls, ACallThatMustBeginAfterOtherNodesStaysInItsPlace) {
  EXPECT_EQ(groups_around("copy", false, true), 0);
  EXPECT_EQ(groups_around("copy", false, false), 1);
}

// Between the calls of the group there are other calls, which would need the memory of the second result.
TEST(GroupCalls, ResultsOfAnActorAreStoredLongerByABoundedNumberOfBytes) {
  for (const int calls : {2, 12}) {
    Program p;
    p.options.team = 2;
    ValueId w = p.input("w", {64, 64}), x = p.input("x", {512, 64});
    for (int i = 0; i < calls; ++i) {  // the results of two products have 256 KB
      ValueId y = build::matmul(p.b, x, p.input(cat("w", i), {64, 64}));
      p.output(build::reduce_sum(p.b, build::exp(p.b, build::mul(p.b, y, y)), {1}), cat("y", i));
    }
    p.output(w, "w");
    EXPECT_EQ(p.calls().find(cat(std::min(calls, 3), " x matmul")), 0u) << p.calls();
  }
}

TEST(GroupCalls, AReadOfTheOldValueStaysBeforeTheUpdate) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", {DType::f32, {6}}), v = testing::parameter(p.b, "v", {DType::f32, {6}});
  p.graph.variables[1].updated = build::exp(p.b, v);
  p.output(build::sin(p.b, w), "old");
  p.graph.variables[0].updated = build::exp(p.b, w);
  const std::string calls = p.calls();
  EXPECT_TRUE(calls == "sin(x0); 2 x exp(x0)" || calls == "exp(x0); sin(x0); exp(x0)") << calls;
}

TEST(GroupCalls, AResultTakesTheMemoryOfAnOperandOfItsCallOnly) {
  Program p;
  ValueId w = p.input("w", {6, 6});
  std::vector<ValueId> x;
  for (int i = 0; i < 3; ++i) x.push_back(build::matmul(p.b, p.input(cat("x", i), {4, 6}), w));
  // Both calls read x[1]. Only the first one reads x[2], and only the second one reads x[0].
  ValueId a = build::mul(p.b, x[1], x[2]), b = build::mul(p.b, x[0], x[1]);
  p.output(build::matmul(p.b, a, w), "a"), p.output(build::matmul(p.b, b, w), "b");
  const Compilation c = p.compiled();
  int groups = 0;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls) {
      if (call.spec.op != "pointwise" || plan::calls_of(call.spec.attrs) != 2) continue;
      ++groups;
      const auto root = [&](LocalId v) { return c.local.values[v].root; };
      const std::size_t n = call.in.size() / 2;
      for (std::size_t result = 0; result < 2; ++result)
        for (std::size_t k = 0; k < call.in.size(); ++k)
          if (k / n != result) {
            EXPECT_NE(root(call.out[result]), root(call.in[k])) << "result " << result << ", operand " << k;
          }
      EXPECT_EQ(root(call.out[0]), root(call.in[1]));
      EXPECT_EQ(root(call.out[1]), root(call.in[2]));
    }
  EXPECT_GT(groups, 0) << p.calls();
}

TEST(GroupCalls, NothingIsGroupedWithAMemoryLimitOrIfResultsAreChecked) {
  for (const int which : {0, 1, 2}) {
    Program p;
    for (int i = 0; i < 3; ++i) p.output(build::exp(p.b, p.input(cat("x", i))), cat("z", i));
    if (which == 1) p.options.memory = 1 << 20;
    if (which == 2) p.options.check_nan = true;
    EXPECT_EQ(p.calls(), which == 0 ? "3 x exp(x0)" : "exp(x0); exp(x0); exp(x0)");
  }
}

}  // namespace
}  // namespace karez::passes
