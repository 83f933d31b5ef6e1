// Tests of the localise pass: local shapes, windows and copies, Partial from Broadcast, transfers and updates.
#include "karez/passes/lowering/localise.h"

#include <gtest/gtest.h>

#include <limits>

#include "karez/base/test_golden.h"
#include "karez/passes/lowering/test_localise.h"

namespace karez::passes {
namespace {

using testing::find_result;
using testing::print_calls;
using testing::root_of;
using testing::table;
using Program = testing::LocaliseProgram;

TEST(Localise, PartsOfUnevenSizesHaveDifferentShapesAndOffsets) {
  Program p("data=2");
  ValueId x = p.fix(p.input("x", {5, 4}), {S(0)});
  ValueId rows = p.fix(build::iota(p.b, {DType::i32, {5}}, 0), {S(0)});
  ValueId noise = p.fix(build::random_uniform(p.b, p.input("state", {2}, DType::i64), {DType::f32, {5, 4}}, 7), {S(0)});
  ValueId y = p.fix(build::add(p.b, x, noise), {S(0)});
  p.output(p.fix(build::sum(p.b, y, {1}), {S(0)}));
  p.output(p.fix(build::neg(p.b, rows), {S(0)}), "rows");
  Compilation c = p.localised();
  EXPECT_TRUE(golden(print_calls(c, 0), R"--(random_uniform(i64[2]) {begin=[0, 0], logical=[5, 4], site=7} -> f32[3, 4]
pointwise(f32[3, 4], f32[3, 4]) {expr="x0 + x1"} -> f32[3, 4]
reduce_sum(f32[3, 4]) {axes=[1]} -> f32[3]
pointwise(i32[3]) {expr="-x0"} -> i32[3]
)--"));
  EXPECT_TRUE(golden(print_calls(c, 1), R"--(random_uniform(i64[2]) {begin=[3, 0], logical=[5, 4], site=7} -> f32[2, 4]
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
  EXPECT_EQ(print_calls(c, 3), "pointwise(f32[0, 2]) {expr=\"exp(x0)\"} -> f32[0, 2]\n");
  EXPECT_EQ(find_result(c, "input", 3).offset, 0);
}

TEST(Localise, WindowsNeedNoCallsAndReshapesOfChannelsLastDataNeedOneCopy) {
  Program p;
  ValueId x = p.input("x", {2, 3, 4, 5});
  ValueId window =
      build::slice(p.b, build::transpose(p.b, build::broadcast(p.b, x, {7, 2, 3, 4, 5}, {1, 2, 3, 4}), {1, 0, 2, 3, 4}),
                   {1, 2, 0, 1, 0}, {1, 4, 3, 2, 5});
  p.output(build::exp(p.b, window));
  Compilation c = p.localised();
  EXPECT_EQ(c.local.copies, 0);
  EXPECT_EQ(print_calls(c),
            "pointwise(f32[1, 4, 3, 2, 5]{60, 0, 20, 5, 1}) {expr=\"exp(x0)\"} -> f32[1, 4, 3, 2, 5]\n");
  EXPECT_EQ(find_result(c, "slice").offset, (60 + 5) * 4);

  Program flat;
  ValueId y = build::transpose(flat.b, flat.input("x", {2, 4, 5, 3}), {0, 3, 1, 2});  // NCHW over channels-last bytes
  flat.output(build::exp(flat.b, build::reshape(flat.b, y, {2, 60})));
  flat.output(build::tanh(flat.b, build::reshape(flat.b, y, {120})), "z");
  c = flat.localised();
  EXPECT_EQ(c.local.copies, 1) << "both reshapes must read the same copy";
  EXPECT_TRUE(golden(print_calls(c), R"--(copy(f32[2, 3, 4, 5]{60, 1, 15, 3}) -> f32[2, 3, 4, 5]
pointwise(f32[2, 60]) {expr="exp(x0)"} -> f32[2, 60]
pointwise(f32[120]) {expr="tanh(x0)"} -> f32[120]
)--"));
}

TEST(Localise, AnEmptySliceHasOffsetZero) {
  Program p;
  p.output(build::exp(p.b, build::slice(p.b, p.input("x", {4}), {4}, {0})));
  Compilation c = p.localised();
  EXPECT_EQ(find_result(c, "slice").offset, 0);
}

TEST(Localise, ARowParallelMatmulAddsTheBiasOnOneDeviceAndZeroOnTheOthers) {
  Program p("model=3");
  ValueId x = p.fix(p.input("x", {4, 6}), {B()});
  ValueId w = testing::parameter(p.b, "w", {DType::f32, {6, 2}});
  p.graph.variables[0].stored = Layout{S(0)};
  ValueId product = p.fix(build::matmul(p.b, x, w), {P()});
  ValueId bias = build::broadcast(p.b, p.input("bias", {2}), {4, 2}, {1});
  p.output(build::exp(p.b, p.fix(build::add(p.b, product, bias), {P()})));
  Compilation c = p.localised();
  for (int d = 0; d < 3; ++d) {
    EXPECT_NE(print_calls(c, d).find("matmul(f32[4, 2]{6, 1}, f32[2, 2]) -> f32[4, 2]"), std::string::npos)
        << print_calls(c, d);
    const LocalCall* add = nullptr;
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls)
        if (segment.device == d && c.graph.node(call.node).op->name == "add") add = &call;
    ASSERT_NE(add, nullptr);
    const LocalValue& bias_root = root_of(c, c.local.values[add->in[1]]);
    EXPECT_EQ(bias_root.constant, d != 0);
    EXPECT_TRUE(d == 0 || print(add->spec.in[1]) == "f32[4, 2]{0, 0}") << print(add->spec.in[1]);
    EXPECT_TRUE(d != 0 || c.graph.node(c.graph.value(bias_root.value).producer).attrs.text("name") == "bias");
  }
  ASSERT_EQ(c.local.setup.size(), 2u) << "expected one zero for each device except the first";
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
  EXPECT_EQ(print_calls(c, 0) + print_calls(c, 1), "");
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
    EXPECT_EQ(print_calls(c, 0), cat("pad(", type, "[3]) {high=[2], low=[0], value=", k.value, "} -> ", type, "[5]\n"));
    EXPECT_EQ(print_calls(c, 1), cat("pad(", type, "[2]) {high=[0], low=[3], value=", k.value, "} -> ", type, "[5]\n"));
  }
}

TEST(Localise, ASplatKeepsAllBitsOfAnInteger) {
  for (std::int64_t value : {std::numeric_limits<std::int64_t>::max(), (std::int64_t{1} << 53) + 1}) {
    Program p;
    ValueId x = p.input("x", {4}, DType::i64);
    ValueId constant = p.b.one("constant", {}, {{"dtype", std::string("i64")}, {"shape", Ints{}}, {"value", value}});
    p.output(build::add(p.b, x, build::broadcast(p.b, constant, {4}, {})));
    Compilation c = p.localised();
    ASSERT_EQ(c.local.setup.size(), 1u);
    EXPECT_EQ(print(c.local.setup[0].spec), cat("constant() {value=", value, "} -> i64[]"));
  }
}

TEST(Localise, TheOperandOfATransferHasTheStoredOrder) {
  Program p("data=2");
  ValueId x = p.fix(p.input("x", {4, 6}), {S(0)});
  p.output(p.fix(build::transpose(p.b, p.fix(build::exp(p.b, x), {S(0)}), {1, 0}), {S(1)}));
  Compilation c = p.localised();
  EXPECT_EQ(c.local.copies, 2) << "expected one copy per device";
  for (const LocalSegment& segment : c.local.segments)
    if (segment.collective.valid()) {
      const LocalValue& operand = c.local.values[segment.reads[0]];
      EXPECT_EQ(print(operand.view), "f32[6, 2]");
      EXPECT_TRUE(operand.value.valid()) << "a copy for a transfer is the value itself, with its slots";
    }
}

// Device 1 is on both meshes, device 0 only sends, and device 2 only receives.
TEST(Localise, ATransferReadsOnTheDevicesOfItsOperandAndWritesOnTheDevicesOfItsResult) {
  Program p;
  p.graph = parse_graph(R"(graph main mesh(a=2) mesh(b=2) [0:1, 0:2] {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4@a]
  %1 = exp(%0) : f32[4@a]
  %2 = transfer(%1) : f32[4;] on mesh1
  output "y" %2
}
)",
                        table());
  const Compilation c = p.localised(false);
  std::string text;
  for (const LocalSegment& segment : c.local.segments) {
    if (!segment.collective.valid()) continue;
    text += cat("device ", segment.device, ":");
    for (LocalId v : segment.reads) text += cat(" reads ", print(c.local.values[v].view));
    for (LocalId v : segment.writes) text += cat(" writes ", print(c.local.values[v].view));
    text += "\n";
  }
  EXPECT_TRUE(golden(text, R"(device 0: reads f32[2]
device 1: reads f32[2] writes f32[4]
device 2: writes f32[4]
)"));
}

TEST(Localise, UpdatesOverwriteTheMemoryOfTheVariable) {
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
  EXPECT_EQ(written, 2) << print_calls(c);
}

// The reshape is [3, 4] -> [12], with parts of 2 rows and 1 row.
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

  Program rejected("data=2");
  x = rejected.fix(rejected.input("x", {3, 4}), {S(0)});
  rejected.b.where = "net.cc:9";
  rejected.output(rejected.fix(build::reshape(rejected.b, x, {12}), {S(0)}));
  try {
    rejected.localised();
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
  EXPECT_EQ(print_calls(c, 2), "pointwise(f32[4]) {expr=\"exp(x0)\"} -> f32[4]\n");
}

}  // namespace
}  // namespace karez::passes
