// Tests of localise: local shapes, windows and copies, Partial from Broadcast, inputs on the host, and missing kernels.
#include "karez/passes/lowering/localise.h"

#include <gtest/gtest.h>

#include <limits>

#include "karez/base/test_golden.h"
#include "karez/passes/lowering/call.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/segment.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/shard.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

struct Program {
  Graph graph;
  Builder b{graph, table()};
  testing::AnyCatalog catalog;
  explicit Program(const char* mesh = "") { graph.meshes = {Mesh::parse(mesh)}; }
  ValueId fix(ValueId value, Layout layout) {
    graph.value(value).layout = std::move(layout);
    return value;
  }
  ValueId input(const std::string& name, Shape shape, DType dtype = DType::f32) {
    return build::input(b, name, {dtype, std::move(shape)});
  }
  void output(ValueId value, const std::string& name = "y") { graph.outputs.push_back({name, value}); }
  Compilation localised(bool sharded = true) {  // false: the graph already has all layouts and boxes
    Compilation c = testing::compilation(graph);
    c.catalog = &catalog;
    if (sharded) run_passes(c, {"shard", "box"});
    run_passes(c, {"order"});
    run_passes(c, {"segment"});
    run_passes(c, {"slots"});
    run_passes(c, {"layout", "localise"});
    return c;
  }
};

// All calls of one device: "matmul(f32[3, 4], f32[4, 2]) -> f32[3, 2]".
std::string calls_of(const Compilation& c, int device = 0) {
  std::string text;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls)
      if (segment.device == device) text += print(call.spec) + "\n";
  return text;
}

// The device's part of the result of the first node of this op.
const LocalValue& made_by(const Compilation& c, std::string_view op, int device = 0) {
  for (const LocalValue& local : c.local.values)
    if (local.device == device && local.value.valid() &&
        c.graph.node(c.graph.value(local.value).producer).op->name == op)
      return local;
  fail("no value of ", op);
}
const LocalValue& root_of(const Compilation& c, const LocalValue& local) { return c.local.values[local.root]; }

TEST(Localise, UnevenPartsHaveTheirOwnShapesAndOffsets) {
  Program p("data=2");
  ValueId x = p.fix(p.input("x", {5, 4}), {S(0)});
  ValueId rows = p.fix(build::iota(p.b, {DType::i32, {5}}, 0), {S(0)});
  ValueId noise = p.fix(build::random_uniform(p.b, p.input("state", {2}, DType::i64), {DType::f32, {5, 4}}, 7), {S(0)});
  ValueId y = p.fix(build::add(p.b, x, noise), {S(0)});
  p.output(p.fix(build::sum(p.b, y, {1}), {S(0)}));
  p.output(p.fix(build::neg(p.b, rows), {S(0)}), "rows");
  Compilation c = p.localised();
  EXPECT_TRUE(golden(calls_of(c, 0), R"--(random_uniform(i64[2]) {begin=[0, 0], logical=[5, 4], site=7} -> f32[3, 4]
pointwise(f32[3, 4], f32[3, 4]) {expr="x0 + x1"} -> f32[3, 4]
reduce_sum(f32[3, 4]) {axes=[1]} -> f32[3]
pointwise(i32[3]) {expr="-x0"} -> i32[3]
)--"));
  EXPECT_TRUE(golden(calls_of(c, 1), R"--(random_uniform(i64[2]) {begin=[3, 0], logical=[5, 4], site=7} -> f32[2, 4]
pointwise(f32[2, 4], f32[2, 4]) {expr="x0 + x1"} -> f32[2, 4]
reduce_sum(f32[2, 4]) {axes=[1]} -> f32[2]
pointwise(i32[2]) {expr="-x0"} -> i32[2]
)--"));
  ASSERT_EQ(c.local.setup.size(), 2u) << "iota is filled when the plan is loaded";
  EXPECT_EQ(print(c.local.setup[0].spec), "iota() {axis=0, start=0} -> i32[3]");
  EXPECT_EQ(print(c.local.setup[1].spec), "iota() {axis=0, start=3} -> i32[2]");
}

TEST(Localise, APartMayHaveNoElements) {
  Program p("data=4");
  ValueId x = p.fix(p.input("x", {3, 2}), {S(0)});
  p.output(p.fix(build::exp(p.b, x), {S(0)}));
  Compilation c = p.localised();
  EXPECT_EQ(calls_of(c, 3), "pointwise(f32[0, 2]) {expr=\"exp(x0)\"} -> f32[0, 2]\n");
  EXPECT_EQ(made_by(c, "input", 3).offset, 0);
}

TEST(Localise, WindowsNeedNoCallsAndReshapesOfChannelsLastDataOneCountedCopy) {
  Program p;
  ValueId x = p.input("x", {2, 3, 4, 5});
  ValueId seen =
      build::slice(p.b, build::transpose(p.b, build::broadcast(p.b, x, {7, 2, 3, 4, 5}, {1, 2, 3, 4}), {1, 0, 2, 3, 4}),
                   {1, 2, 0, 1, 0}, {1, 4, 3, 2, 5});
  p.output(build::exp(p.b, seen));
  Compilation c = p.localised();
  EXPECT_EQ(c.local.copies, 0);
  EXPECT_EQ(calls_of(c), "pointwise(f32[1, 4, 3, 2, 5]{60, 0, 20, 5, 1}) {expr=\"exp(x0)\"} -> f32[1, 4, 3, 2, 5]\n");
  EXPECT_EQ(made_by(c, "slice").offset, (60 + 5) * 4);

  Program flat;
  ValueId y = build::transpose(flat.b, flat.input("x", {2, 4, 5, 3}), {0, 3, 1, 2});  // NCHW over channels-last bytes
  flat.output(build::exp(flat.b, build::reshape(flat.b, y, {2, 60})));
  flat.output(build::tanh(flat.b, build::reshape(flat.b, y, {120})), "z");
  c = flat.localised();
  EXPECT_EQ(c.local.copies, 1) << "both read the same copy";
  EXPECT_TRUE(golden(calls_of(c), R"--(copy(f32[2, 3, 4, 5]{60, 1, 15, 3}) -> f32[2, 3, 4, 5]
pointwise(f32[2, 60]) {expr="exp(x0)"} -> f32[2, 60]
pointwise(f32[120]) {expr="tanh(x0)"} -> f32[120]
)--"));
}

TEST(Localise, AnEmptySliceHasOffsetZero) {
  Program p;
  p.output(build::exp(p.b, build::slice(p.b, p.input("x", {4}), {4}, {0})));
  Compilation c = p.localised();
  EXPECT_EQ(made_by(c, "slice").offset, 0);
}

TEST(Localise, ARowParallelMatmulAddsItsBiasOnOnlyOneCoordinate) {
  Program p("model=3");
  ValueId x = p.fix(p.input("x", {4, 6}), {B()});
  ValueId w = testing::parameter(p.b, "w", {DType::f32, {6, 2}});
  p.graph.variables[0].stored = Layout{S(0)};
  ValueId product = p.fix(build::matmul(p.b, x, w), {P()});
  ValueId bias = build::broadcast(p.b, p.input("bias", {2}), {4, 2}, {1});
  p.output(build::exp(p.b, p.fix(build::add(p.b, product, bias), {P()})));
  Compilation c = p.localised();
  for (int d = 0; d < 3; ++d) {
    EXPECT_NE(calls_of(c, d).find("matmul(f32[4, 2]{6, 1}, f32[2, 2]) -> f32[4, 2]"), std::string::npos)
        << calls_of(c, d);
    const LocalCall* add = nullptr;
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls)
        if (segment.device == d && c.graph.node(call.node).op->name == "add") add = &call;
    ASSERT_NE(add, nullptr);
    const LocalValue& taken = root_of(c, c.local.values[add->in[1]]);
    EXPECT_EQ(taken.constant, d != 0);
    EXPECT_TRUE(d == 0 || print(add->spec.in[1]) == "f32[4, 2]{0, 0}") << print(add->spec.in[1]);
    EXPECT_TRUE(d != 0 || c.graph.node(c.graph.value(taken.value).producer).attrs.text("name") == "bias");
  }
  ASSERT_EQ(c.local.setup.size(), 2u) << "one zero per device";
  EXPECT_EQ(print(c.local.setup[0].spec), "constant() {value=0.0} -> f32[]");
}

Attrs to_partial(const char* from, const char* to) {
  return Attrs().set("axis", 0).set("move", "to_partial").set("from", from).set("to", to);
}
Attrs all_reduce(const char* from) {
  return Attrs().set("axis", 0).set("move", "all_reduce").set("from", from).set("to", "B");
}

TEST(Localise, ABroadcastBecomesAPartialMaximumWithoutCalls) {
  Program p("data=2");
  ValueId x = p.fix(p.input("x", {4}), {B()});
  ValueId partial = p.fix(p.b.one("box", {x}, to_partial("B", "P(max)")), {P(Reduce::max)});
  p.output(p.fix(p.b.one("box", {partial}, all_reduce("P(max)")), {B()}));
  Compilation c = p.localised(false);
  EXPECT_TRUE(c.local.setup.empty());
  EXPECT_EQ(calls_of(c, 0) + calls_of(c, 1), "");
}

TEST(Localise, ASplitBecomesPartialByPaddingWithTheIdentity) {
  struct Case {
    Reduce reduce;
    DType dtype;
    const char* value;
  };
  for (Case k : {Case{Reduce::sum, DType::f32, "0.0"},
                 {Reduce::max, DType::f32, "-inf"},
                 {Reduce::min, DType::f64, "inf"},
                 {Reduce::sum, DType::i64, "0"},
                 {Reduce::max, DType::i32, "-2147483648"},
                 {Reduce::min, DType::i32, "2147483647"},
                 {Reduce::max, DType::i64, "-9223372036854775808"},  // an integer, since no double equals it
                 {Reduce::min, DType::i64, "9223372036854775807"}}) {
    Program p("data=2");
    std::string kind = print(P(k.reduce));
    ValueId x = p.fix(p.input("x", {5}, k.dtype), {S(0)});
    ValueId partial = p.fix(p.b.one("box", {x}, to_partial("S(0)", kind.c_str())), {P(k.reduce)});
    p.output(p.fix(p.b.one("box", {partial}, all_reduce(kind.c_str())), {B()}));
    Compilation c = p.localised(false);
    std::string type(name_of(k.dtype));
    EXPECT_EQ(calls_of(c, 0), cat("pad(", type, "[3]) {high=[2], low=[0], value=", k.value, "} -> ", type, "[5]\n"));
    EXPECT_EQ(calls_of(c, 1), cat("pad(", type, "[2]) {high=[0], low=[3], value=", k.value, "} -> ", type, "[5]\n"));
  }
}

TEST(Localise, ASplatKeepsAllBitsOfAnInteger) {
  for (std::int64_t value : {std::numeric_limits<std::int64_t>::max(), (std::int64_t{1} << 53) + 1}) {
    Program p;
    ValueId x = p.input("x", {4}, DType::i64);
    ValueId one = p.b.one("constant", {}, {{"dtype", std::string("i64")}, {"shape", Ints{}}, {"value", value}});
    p.output(build::add(p.b, x, build::broadcast(p.b, one, {4}, {})));
    Compilation c = p.localised();
    ASSERT_EQ(c.local.setup.size(), 1u);
    EXPECT_EQ(print(c.local.setup[0].spec), cat("constant() {value=", value, "} -> i64[]"));
  }
}

TEST(Localise, AnInputIsOneRegisterOnTheHostWithAWindowForEachDevice) {
  Program p("data=2,model=2");
  ValueId x = p.fix(p.input("x", {5, 4}), {S(0), B()});
  p.output(p.fix(build::exp(p.b, x), {S(0), S(1)}));
  Compilation c = p.localised();
  int roots = 0;
  for (const LocalValue& local : c.local.values) roots += local.device == -1;
  EXPECT_EQ(roots, 1);
  for (int d = 0; d < 4; ++d) {
    const LocalValue& window = made_by(c, "input", d);
    EXPECT_EQ(root_of(c, window).device, -1);
    EXPECT_EQ(print(root_of(c, window).view), "f32[5, 4]");
    EXPECT_EQ(window.offset, d < 2 ? 0 : 3 * 4 * 4);
    EXPECT_EQ(print(window.view), d < 2 ? "f32[3, 4]" : "f32[2, 4]");
    EXPECT_EQ(made_by(c, "box", d).offset, window.offset + (d % 2) * 2 * 4) << "a slice of the window without a call";
  }
}

TEST(Localise, AnArrayInputIsAPartOnEachDevice) {
  Program p("data=2,model=2");
  ValueId x = build::array_input(p.b, "x", {DType::f32, {5, 4}}, {B(), S(0)});
  p.output(p.fix(build::exp(p.b, x), {S(1), S(0)}));
  p.graph.outputs[0].layout = Layout{S(1), S(0)};
  Compilation c = p.localised();
  for (int d = 0; d < 4; ++d) {
    const LocalValue& part = made_by(c, "input", d);
    EXPECT_EQ(root_of(c, part).device, d);
    EXPECT_EQ(print(part.view), d % 2 == 0 ? "f32[3, 4]" : "f32[2, 4]");
    EXPECT_EQ(part.box, (Box{d % 2 == 0 ? Range{0, 3} : Range{3, 5}, {0, 4}}));
    EXPECT_EQ(made_by(c, "box", d).offset, d / 2 * 2 * 4) << "a slice of it without a call";
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
  const LocalValue& root = root_of(c, made_by(c, "input", 1));
  EXPECT_EQ(print(root.view), "f32[4, 2]");
  EXPECT_EQ(root.box, (Box{{4, 8}, {0, 2}}));
  c.options.rank = 2;
  EXPECT_THROW(run_passes(c, {"localise"}), Error);
}

// Kernels are chosen by strides, and ranks that hold different amounts of an input must make the same choice.
TEST(Localise, TheStridesOfAnInputDoNotDependOnOtherPartsOfTheRank) {
  auto windows = [](const Layout& layout, int each) {
    std::map<std::pair<int, int>, std::string> found;  // by coordinates on the mesh
    std::int64_t held = 0;
    for (int rank = 0; rank < 4 / each; ++rank) {
      Program p("data=2,model=2");
      for (int d = 0; d < 4; ++d) p.graph.meshes[0].devices[static_cast<std::size_t>(d)] = {d / each, d % each};
      ValueId x = p.input("x", {8, 6});
      p.graph.value(x).layout = layout;
      ValueId y = build::exp(p.b, x);
      p.graph.value(y).layout = layout;
      p.output(y);
      Compilation c = testing::compilation(p.graph);
      c.options.rank = rank;
      run_passes(c, {"order", "segment", "slots", "layout", "localise"});
      for (int d = 0; d < each; ++d) {
        const int device = rank * each + d;
        found[{device / 2, device % 2}] = print(made_by(c, "input", d).view);
      }
      for (const LocalValue& local : c.local.values) held += local.device == -1 ? local.view.count() : 0;
    }
    return std::pair{found, held};
  };
  for (const Layout& layout : {Layout{S(0), S(1)}, {S(1), B()}, {S(1), S(0)}, {S(0), B()}, {B(), B()}}) {
    const auto alone = windows(layout, 1), pairs = windows(layout, 2), all = windows(layout, 4);
    EXPECT_EQ(alone.first, all.first) << print(layout);
    EXPECT_EQ(pairs.first, all.first) << print(layout);
    EXPECT_EQ(all.second, 48) << print(layout) << ": the whole input, each element once";
  }
}

TEST(Localise, IfAllReadersOfAnInputAreSlicesARankHoldsOnlyThese) {
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
    std::vector<Box> held;
    for (const LocalValue& local : c.local.values)
      if (local.device == -1) held.push_back(local.box);
    EXPECT_EQ(held, (std::vector<Box>{{{4 * rank, 4 * rank + 4}, {0, 2}}, {{0, 8}, {0, 2}}}))
        << "another node reads the whole of y";
  }
}

TEST(Localise, TheOperandOfATransferHasTheStoredOrder) {
  Program p("data=2");
  ValueId x = p.fix(p.input("x", {4, 6}), {S(0)});
  p.output(p.fix(build::transpose(p.b, p.fix(build::exp(p.b, x), {S(0)}), {1, 0}), {S(1)}));
  Compilation c = p.localised();
  EXPECT_EQ(c.local.copies, 2) << "one per device";
  for (const LocalSegment& segment : c.local.segments)
    if (segment.collective.valid()) {
      const LocalValue& taken = c.local.values[segment.reads[0]];
      EXPECT_EQ(print(taken.view), "f32[6, 2]");
      EXPECT_TRUE(taken.value.valid()) << "a copy for a transfer is the value itself, with its slots";
    }
}

TEST(Localise, UpdatesWriteTheVariablesOwnBytes) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", {DType::f32, {4}}), v = testing::parameter(p.b, "v", {DType::f32, {4}});
  p.graph.variables[0].updated = build::add(p.b, w, p.input("x", {4}));
  p.graph.variables[1].updated = build::exp(p.b, w);
  (void)v;
  Compilation c = p.localised();
  int written = 0;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls)
      for (LocalId out : call.out) written += root_of(c, c.local.values[out]).variable >= 0;
  EXPECT_EQ(written, 2) << calls_of(c);
}

TEST(Localise, ATeamIsChosenByTheWorkOfOneDevice) {  // for a replicated product, that is the whole product
  CostTable costs;
  std::int64_t rows = 4;
  auto seconds = [&] {
    std::vector<TensorType> in = {{DType::f32, {rows, 128}}, {DType::f32, {128, 128}}},
                            out = {{DType::f32, {rows, 128}}};
    Cost cost = cost_of(table().at("matmul"), in, out, {});
    return costs.seconds(cost);
  };
  while (seconds() < 1.5e-5) rows += 4;
  ASSERT_LT(seconds(), 2 * 1.5e-5) << "a quarter of it must not justify a second thread";
  for (Sbp entry : {B(), S(0)}) {
    Program p("data=4");
    p.output(
        p.fix(build::matmul(p.b, p.fix(p.input("x", {rows, 128}), {entry}), p.fix(p.input("w", {128, 128}), {B()})),
              {entry}));
    Compilation c = testing::compilation(p.graph);
    c.catalog = &p.catalog;
    c.options.team = 2;
    run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise"});
    int products = 0;
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls) {
        if (call.spec.op != "matmul") continue;
        ++products;
        EXPECT_EQ(call.spec.team, entry.is_broadcast() ? 2 : 1);
      }
    EXPECT_EQ(products, 4);
  }
}

TEST(Localise, AMissingKernelIsAnErrorThatListsWhatExists) {
  Program p;
  p.b.where = "net.cc:4", p.b.path = "fc";
  p.output(build::matmul(p.b, p.input("x", {2, 3}), p.input("w", {3, 4})));
  p.catalog.missing = "matmul";
  try {
    p.localised();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "no kernel supports matmul(f32[2, 3], f32[3, 4]) -> f32[2, 4] of matmul at net.cc:4 (fc); "
                 "kernels of this op: none");
  }
  Program constant;
  constant.output(build::exp(constant.b, build::full(constant.b, DType::f32, {2}, 3)));
  constant.catalog.missing = "constant";
  try {
    constant.localised();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no kernel supports constant() {value=3.0} -> f32[]; kernels of this op: none");
  }
}

// A matmul kernel that is fast, or works at all, only with a column-major second operand.
class ColumnMajorCatalog : public testing::AnyCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    if (call.op != "matmul") return AnyCatalog::find(call);
    bool columns = call.in[1].strides == Strides{1, call.in[1].shape[0]};
    if (!columns && strict) return std::nullopt;
    return KernelChoice{columns ? "fast.matmul" : "plain.matmul", 0, columns ? 1 : 0.05};
  }
  std::optional<CallSpec> suggest(const CallSpec& call) const override {
    CallSpec best = call;
    if (call.op == "matmul") best.in[1].strides = {1, call.in[1].shape[0]};
    return best;
  }
  bool strict = false;
};

TEST(Localise, AKernelThatRequiresOtherStridesGetsACountedCopy) {
  for (bool strict : {false, true}) {
    Program p;
    ValueId w = p.input("w", {3, 4});
    p.output(build::matmul(p.b, p.input("x", {2, 3}), w));
    p.output(build::matmul(p.b, p.input("z", {5, 3}), w), "again");
    ColumnMajorCatalog columns;
    columns.strict = strict;
    Compilation c = testing::compilation(p.graph);
    c.catalog = &columns;
    run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise"});
    EXPECT_EQ(c.local.copies, 1) << "shared by both";
    EXPECT_NE(calls_of(c).find("copy(f32[3, 4]) -> f32[3, 4]{1, 3}"), std::string::npos) << calls_of(c);
    for (const LocalCall& call : c.local.segments.back().calls)
      if (call.spec.op == "matmul") { EXPECT_EQ(call.kernel, "fast.matmul"); }
  }
}

// [3, 4] -> [12] with parts of 2 rows and 1 row.
TEST(Localise, AMergedDimensionThatTheMeshDoesNotDivideIsGatheredFirst) {
  Program p("data=2");
  ValueId x = p.fix(p.input("x", {3, 4}), {S(0)});
  p.output(build::reshape(p.b, x, {12}));
  Compilation c = p.localised();
  bool gathered = false;
  for (const Node& node : c.graph.nodes)
    gathered |=
        node.op->name == "box" && node.attrs.text("move") == "all_gather" && c.graph.type(node.inputs[0]).rank() == 2;
  EXPECT_TRUE(gathered) << print(c.graph);

  Program refused("data=2");
  x = refused.fix(refused.input("x", {3, 4}), {S(0)});
  refused.b.where = "net.cc:9";
  refused.output(refused.fix(build::reshape(refused.b, x, {12}), {S(0)}));
  try {
    refused.localised();
    FAIL();
  } catch (const Error& error) {
    std::string text = error.what();
    EXPECT_EQ(text.substr(0, text.find(" (B)")),
              "reshape at net.cc:9 cannot produce f32[12] in the layout (S(0)) on mesh(data=2); it can produce")
        << text;
  }

  Program divides("data=3");  // 3 parts of 1 row, or 4 elements, each
  x = divides.fix(divides.input("x", {3, 4}), {S(0)});
  divides.output(divides.fix(build::exp(divides.b, divides.fix(build::reshape(divides.b, x, {12}), {S(0)})), {S(0)}));
  c = divides.localised();
  EXPECT_EQ(calls_of(c, 2), "pointwise(f32[4]) {expr=\"exp(x0)\"} -> f32[4]\n");
}

}  // namespace
}  // namespace karez::passes
