// order: old versions are read before they are overwritten, updates come last, and other new versions are assigned.
#include "karez/passes/scheduling/order.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/list_schedule.h"
#include "karez/passes/scheduling/peak_live_bytes.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::count_op;
using testing::table;

const TensorType square{DType::f64, {4, 4}};

struct Step {
  Graph graph;
  Builder b{graph, table()};
  ValueId parameter(const std::string& name, const TensorType& type = square) {
    return testing::parameter(b, name, type);
  }
  ValueId input(const std::string& name, const TensorType& type = square) { return build::input(b, name, type); }
  void update(std::size_t variable, ValueId value) { graph.variables[variable].updated = value; }
  void sgd(std::size_t variable, ValueId g) {  // with its momentum in the variable after it
    if (!lr.valid()) lr = input("lr", {DType::f64, {}});
    auto next =
        build::sgd(b, graph.variables[variable].read, graph.variables[variable + 1].read, g, lr, {.momentum = 0.9});
    update(variable, next.w), update(variable + 1, next.m);
  }
  Graph ordered() {
    verify(graph);
    Compilation c = testing::compilation(graph);
    auto before = testing::meaning_of(graph);
    run_passes(c, {"order"});
    verify(c.graph);
    EXPECT_EQ(testing::difference(before, testing::meaning_of(c.graph)), 0);
    EXPECT_EQ(c.stream.size(), c.graph.nodes.size());
    for (const Variable& variable : c.graph.variables)
      EXPECT_TRUE(!variable.updated.valid() || updates_in_place(c.graph, variable)) << variable.name;
    return std::move(c.graph);
  }
  ValueId lr;
};

NodeId place_of(const Graph& graph, std::string_view op, int nth = 0) {
  for (NodeId n : graph.nodes.ids())
    if (graph.nodes[n].op->name == op && nth-- == 0) return n;
  return NodeId(graph.nodes.size());
}
bool after(const Graph& graph, NodeId node, NodeId before) {
  const auto& list = graph.nodes[node].after;
  return std::find(list.begin(), list.end(), before) != list.end();
}

TEST(Order, TheInputGradientReadsTheOldWeight) {  // dX = dY W^T, though the update was written first
  Step s;
  ValueId w = s.parameter("w");
  s.parameter("m");
  ValueId x = s.input("x"), dy = s.input("dy");
  s.sgd(0, build::matmul(s.b, x, dy, {.transpose_a = true}));
  ValueId dx = build::matmul(s.b, dy, w, {.transpose_b = true});
  s.graph.outputs = {{"dx", dx}};
  Graph g = s.ordered();
  NodeId reader, writer = place_of(g, "sgd");
  for (NodeId n : g.nodes.ids())
    if (g.nodes[n].attrs.has("transpose_b") && g.nodes[n].attrs.flag("transpose_b")) reader = n;
  EXPECT_LT(reader, writer);
  EXPECT_TRUE(after(g, writer, reader)) << print(g);
  EXPECT_EQ(count_op(g, "copy") + count_op(g, "assign"), 0);
}

TEST(Order, ReadersThroughWindowsComeFirstToo) {
  Step s;
  s.graph.meshes = {Mesh::parse("data=2")};
  ValueId w = s.parameter("w");
  s.parameter("m");
  ValueId x = s.input("x");
  s.sgd(0, x);
  ValueId flat = build::reshape(s.b, build::transpose(s.b, w, {1, 0}), {16});
  ValueId wide = build::broadcast(s.b, flat, {2, 16}, {1});
  s.graph.outputs = {{"y", build::exp(s.b, wide)}};
  for (Value& value : s.graph.values) value.layout = Layout{B()};
  s.graph.value(s.graph.outputs[0].value).layout = Layout{S(0)};
  for (Variable& variable : s.graph.variables) variable.stored = Layout{B()};
  OperandLayouts wanted;
  for (const Node& node : s.graph.nodes)
    wanted.emplace_back(node.inputs.size(), Layout{node.op->name == "exp" ? S(0) : B()});
  s.graph = box(s.graph, table(), wanted, CostTable());
  Graph g = s.ordered();
  NodeId writer = place_of(g, "sgd");
  for (const char* op : {"transpose", "reshape", "broadcast", "box", "exp"})
    EXPECT_TRUE(after(g, writer, place_of(g, op))) << op << "\n" << print(g);
  EXPECT_FALSE(after(g, writer, place_of(g, "box", 1))) << "the gather reads the result of exp";
  EXPECT_FALSE(after(g, writer, place_of(g, "input")));
}

TEST(Order, AReaderThatNeedsTheNewVersionGetsACopyOfTheOld) {
  Step s;
  ValueId w = s.parameter("w");
  ValueId next = build::add(s.b, build::exp(s.b, w), s.input("x"));
  s.update(0, next);
  ValueId delta = build::sub(s.b, next, build::transpose(s.b, w, {1, 0}));  // reads old and new
  s.graph.outputs = {{"delta", delta}};
  Graph g = s.ordered();
  EXPECT_EQ(count_op(g, "assign"), 1) << "the new version has other readers";
  EXPECT_EQ(count_op(g, "copy"), 0) << "delta can be computed before the assignment";

  Step late;
  w = late.parameter("w");
  late.parameter("m");
  late.sgd(0, late.input("g"));
  ValueId momentum =
      late.graph.variables[1].updated;  // sgd writes both; this reader comes after it and needs the old weight
  late.graph.outputs = {{"y", build::mul(late.b, build::transpose(late.b, w, {1, 0}), build::neg(late.b, momentum))}};
  g = late.ordered();
  EXPECT_EQ(count_op(g, "copy"), 1) << print(g);
  NodeId copy = place_of(g, "copy"), writer = place_of(g, "sgd");
  EXPECT_TRUE(after(g, writer, copy));
  EXPECT_EQ(g.nodes[place_of(g, "transpose")].inputs[0], g.nodes[copy].outputs[0]);
  EXPECT_EQ(g.nodes[writer].inputs[0], g.variables[0].read);
}

TEST(Order, UpdatesComeLastAndTogether) {
  Step s;
  for (const char* name : {"a", "ma", "b", "mb", "c", "mc"}) s.parameter(name);
  ValueId x = s.input("x");
  for (std::size_t v : {0, 2, 4}) {
    s.sgd(v, build::exp(s.b, build::add(s.b, x, s.graph.variables[v].read)));
    x = build::tanh(s.b, x);
  }
  s.graph.outputs = {{"x", x}};
  Graph g = s.ordered();
  for (std::size_t k = 1; k <= 3; ++k) EXPECT_EQ(g.node(NodeId(g.nodes.size() - k)).op->name, "sgd") << print(g);
}

TEST(Order, AnUpdatedValueThatOthersTakeIsAssigned) {
  for (int which = 0; which < 4; ++which) {
    Step s;
    ValueId w = s.parameter("w");
    s.parameter("other");
    s.parameter("m");
    ValueId lr = s.input("lr", {DType::f64, {}});
    auto next = build::sgd(s.b, w, s.graph.variables[2].read, s.input("g"), lr, {.momentum = 0.9});
    s.update(0, next.w), s.update(2, next.m);
    if (which == 1) s.graph.outputs = {{"w", next.w}};
    if (which == 2) s.graph.outputs = {{"y", build::exp(s.b, next.w)}};
    if (which == 3) s.update(1, next.w);
    Graph g = s.ordered();
    EXPECT_EQ(count_op(g, "assign"), which == 0 ? 0 : which == 3 ? 2 : 1) << which;
    EXPECT_TRUE(which != 1 || g.node(g.value(g.outputs[0].value).producer).op->name == "sgd");
  }
}

TEST(Order, AValueThatIsNoUpdateOfItsVariableIsAssignedInTheStoredLayout) {
  Step s;
  s.graph.meshes = {Mesh::parse("data=2")};
  s.parameter("w");
  s.update(0, s.input("x"));
  for (Value& value : s.graph.values) value.layout = Layout{S(0)};
  s.graph.variables[0].stored = Layout{S(0)};
  Graph g = s.ordered();
  ASSERT_EQ(count_op(g, "assign"), 1);
  EXPECT_EQ(*g.value(g.variables[0].updated).layout, Layout{S(0)});
}

TEST(Order, AWriterThatReadsItsOldVersionThroughAnotherWindowDoesNotWriteInPlace) {
  Step s;
  ValueId w = s.parameter("w");
  s.parameter("m");
  s.sgd(0, build::transpose(s.b, w, {1, 0}));  // element (i, j) would be overwritten before (j, i) reads it
  Graph g = s.ordered();
  EXPECT_EQ(count_op(g, "assign"), 1) << print(g);
  EXPECT_TRUE(after(g, place_of(g, "assign"), place_of(g, "transpose")));

  Step direct;
  w = direct.parameter("w");
  direct.update(0, build::transpose(direct.b, w, {1, 0}));
  g = direct.ordered();
  EXPECT_EQ(count_op(g, "copy"), 1);
  EXPECT_EQ(count_op(g, "assign"), 1);

  Step same;
  w = same.parameter("w");
  same.update(0, w);
  same.ordered();
}

TEST(Order, VariablesThatTakeEachOthersOldVersionGetACopyNotACycle) {
  Step swap;
  ValueId a = swap.parameter("a"), b = swap.parameter("b");
  swap.update(0, b), swap.update(1, a);
  Graph g = swap.ordered();
  EXPECT_EQ(count_op(g, "copy"), 1) << print(g);

  Step product;  // loss = sum(a b): each one's gradient is the other
  a = product.parameter("a"), product.parameter("ma"), b = product.parameter("b"), product.parameter("mb");
  product.sgd(0, b), product.sgd(2, a);
  g = product.ordered();
  EXPECT_EQ(count_op(g, "copy"), 1);
  EXPECT_EQ(count_op(g, "assign"), 0);

  Step line;  // a delay line needs no copy: b is stored before a
  a = line.parameter("a"), b = line.parameter("b");
  line.update(0, line.input("x")), line.update(1, a);
  g = line.ordered();
  EXPECT_EQ(count_op(g, "copy"), 0);
}

// ---- by cost

// Values of f32[512, 512] on two devices. By the default cost table, a product of whole operands takes 2.7 ms, one of
// split rows half of that.
struct Priced {
  Graph graph;
  Builder b{graph, table()};
  CostTable costs;
  Priced() { graph.meshes = {Mesh::parse("data=2")}; }
  ValueId laid(ValueId value, Sbp entry) {
    graph.value(value).layout = Layout{entry};
    return value;
  }
  ValueId input(const std::string& name, Sbp entry) {
    return laid(build::input(b, name, {DType::f32, {512, 512}}), entry);
  }
  ValueId product(ValueId x, ValueId y, Sbp entry) { return laid(build::matmul(b, x, y), entry); }
  ValueId gathered(ValueId x) {
    return laid(b.one("box", {x}, Attrs().set("axis", 0).set("move", "all_gather").set("from", "S(0)").set("to", "B")),
                B());
  }
  OrderedGraph ordered() const { return order(graph, table(), costs, 2); }
};

NodeId maker(const Graph& graph, std::string_view output) {
  for (const Output& o : graph.outputs)
    if (o.name == output) return graph.value(o.value).producer;
  return {};
}

// A weight gradient, written first, and an input gradient, which is gathered before the next product takes it.
Priced backward(double seconds_per_byte) {
  Priced p;
  p.costs.link.beta = seconds_per_byte;
  ValueId x = p.input("x", B());
  ValueId rows =
      p.laid(p.b.one("box", {x}, Attrs().set("axis", 0).set("move", "slice").set("from", "B").set("to", "S(0)")), S(0));
  ValueId dw = p.product(x, x, B());
  ValueId dx = p.product(rows, x, S(0));
  p.graph.outputs = {{"dw", dw}, {"dx", dx}, {"next", p.product(p.gathered(dx), x, B())}};
  return p;
}

TEST(Order, AnInputGradientComesBeforeAWeightGradientIfThatShortensTheLaunch) {
  OrderedGraph made = backward(4e-9).ordered();
  EXPECT_LT(maker(made.graph, "dx"), maker(made.graph, "dw")) << print(made.graph);
  EXPECT_LT(place_of(made.graph, "box", 1), maker(made.graph, "dw")) << "the transfer comes right after its operand";
  // 1.3 ms of dx, 2.7 of dw during 2.1 of the transfer, 2.7 of the next product; as traced, the transfer is added.
  EXPECT_LT(made.seconds, 0.8 * made.traced_seconds);
  EXPECT_GT(made.seconds, 0.7 * made.traced_seconds);
}

TEST(Order, TheTracedOrderStaysIfLessThanAHundredthIsSaved) {
  OrderedGraph made = backward(1e-11).ordered();
  EXPECT_LT(maker(made.graph, "dw"), maker(made.graph, "dx")) << print(made.graph);
  EXPECT_GT(made.seconds, 0);
  EXPECT_EQ(made.seconds, made.traced_seconds);
}

// A path through a transfer, and `count` sums, each of a value as large as x that it alone reads; sums are written
// first.
Priced with_sums(int count) {
  Priced p;
  p.costs.link.beta = 4e-9;
  ValueId x = p.input("x", B());
  for (int i = 0; i < count; ++i)
    p.graph.outputs.push_back(
        {cat("sum", i), p.laid(build::reduce_sum(p.b, p.laid(build::exp(p.b, x), B()), {1}), B())});
  ValueId rows =
      p.laid(p.b.one("box", {x}, Attrs().set("axis", 0).set("move", "slice").set("from", "B").set("to", "S(0)")), S(0));
  p.graph.outputs.push_back({"next", p.product(p.gathered(p.product(rows, x, S(0))), x, B())});
  return p;
}

TEST(Order, TheTracedOrderStaysIfTheOtherNeedsMoreBytesThanItSavesTime) {
  OrderedGraph one = with_sums(1).ordered(), many = with_sums(8).ordered();
  EXPECT_LT(one.seconds, 0.99 * one.traced_seconds);
  EXPECT_EQ(many.seconds, many.traced_seconds) << "all eight values would be live before the first sum";
  EXPECT_LT(place_of(many.graph, "reduce_sum"), place_of(many.graph, "exp", 1));
}

TEST(Order, PeakLiveBytesCountValuesUntilTheirLastReader) {
  Priced p;
  const std::int64_t whole = 512 * 512 * 4;
  ValueId a = p.laid(build::exp(p.b, p.input("x", B())), B());
  ValueId turned = p.laid(build::transpose(p.b, a, {1, 0}), B());
  ValueId b = p.laid(build::exp(p.b, a), B());
  EXPECT_EQ(peak_live_bytes(p.graph), 2 * whole);
  ValueId c = p.product(b, turned, B());  // a and b live until here
  EXPECT_EQ(peak_live_bytes(p.graph), 3 * whole);
  p.laid(build::exp(p.b, c), B());
  EXPECT_EQ(peak_live_bytes(p.graph), 3 * whole);
  Priced half;
  half.laid(build::exp(half.b, half.input("x", S(0))), S(0));
  EXPECT_EQ(peak_live_bytes(half.graph), whole / 2);
}

TEST(Order, ATransferForTheNextProductComesBeforeOneThatIsNeededLater) {
  Priced p;
  p.costs.link.beta = 4e-9;
  ValueId a = p.input("a", S(0)), b = p.input("b", S(0)), w = p.input("w", B());
  ValueId late = p.gathered(a), soon = p.gathered(b);
  p.graph.outputs = {
      {"late", late}, {"soon", soon}, {"y", p.laid(build::add(p.b, p.product(soon, w, B()), late), B())}};
  OrderedGraph made = p.ordered();
  EXPECT_LT(maker(made.graph, "soon"), maker(made.graph, "late")) << print(made.graph);
  EXPECT_LT(made.seconds, 0.9 * made.traced_seconds);
}

TEST(Order, IfTheOrderMakesNoDifferenceTheTracedOneStays) {
  Priced p;
  ValueId x = p.input("x", S(0)), w = p.input("w", B());
  ValueId small = p.laid(build::exp(p.b, x), S(0)), large = p.product(x, w, S(0));
  p.graph.outputs = {{"y", p.gathered(p.laid(build::add(p.b, small, large), S(0)))}};
  OrderedGraph made = p.ordered();
  EXPECT_LT(place_of(made.graph, "exp"), place_of(made.graph, "matmul"));
  EXPECT_EQ(made.seconds, made.traced_seconds);
  auto rank = list_schedule(made.graph, made.stream, p.costs);
  EXPECT_GT(rank[place_of(made.graph, "exp")], rank[place_of(made.graph, "matmul")]) << "otherwise there was no choice";
}

TEST(Order, WithoutTransfersNoTimeIsPredicted) {
  Priced p;
  ValueId x = p.input("x", B());
  p.graph.outputs = {{"a", p.laid(build::exp(p.b, x), B())}, {"b", p.product(x, x, B())}};
  OrderedGraph made = p.ordered();
  EXPECT_EQ(made.seconds, 0);
  EXPECT_LT(maker(made.graph, "a"), maker(made.graph, "b"));
}

TEST(Order, RanksOfUpdatesAndOfNodesThatTakeNoTime) {
  Priced p;
  ValueId x = p.input("x", B()), lr = p.laid(build::input(p.b, "lr", {DType::f32, {}}), B());
  ValueId w = p.laid(testing::parameter(p.b, "w", {DType::f32, {512, 512}}), B()),
          m = p.laid(testing::parameter(p.b, "m", {DType::f32, {512, 512}}), B());
  ValueId turned = p.laid(build::transpose(p.b, x, {1, 0}), B());  // takes no time
  auto next = build::sgd(p.b, w, m, x, lr,
                         {.momentum = 0.9});  // could begin at once, and while the stream waits for the transfer
  p.laid(next.w, B()), p.laid(next.m, B());
  ValueId y = p.product(p.gathered(p.laid(build::exp(p.b, p.input("rows", S(0))), S(0))), turned, B());
  p.graph.outputs = {{"y", y}, {"z", p.laid(build::tanh(p.b, p.product(y, turned, B())), B())}};
  p.graph.variables[0].updated = next.w, p.graph.variables[1].updated = next.m;
  for (Variable& variable : p.graph.variables) variable.stored = Layout{B()};
  OrderedGraph made = p.ordered();
  auto rank = list_schedule(made.graph, made.stream, p.costs);
  auto of = [&](const char* op) { return rank[place_of(made.graph, op)]; };
  EXPECT_LT(of("exp"), of("matmul"));
  EXPECT_EQ(of("transpose"), of("matmul")) << "the first of its two readers";
  EXPECT_GT(of("sgd"), of("tanh"));
  EXPECT_EQ(rank[made.graph.value(made.graph.variables[0].read).producer], of("sgd"));
}

TEST(Order, RandomProgramsKeepTheirEdgesAndAreNeverSlowerThanTraced) {
  const char* given = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 31;
  RecordProperty("seed", std::to_string(seed));
  int changed = 0;
  for (std::uint64_t round = 0; round < 200; ++round) {
    std::mt19937_64 random(seed + round);
    Priced p;
    p.costs.link.beta = 4e-9;
    std::vector<ValueId> split = {p.input("x", S(0))}, whole = {p.input("w", B()), p.gathered(split[0])};
    auto any = [&](const std::vector<ValueId>& of) { return of[static_cast<std::size_t>(random() % of.size())]; };
    for (int step = 0; step < 20; ++step) {
      switch (random() % 4) {
        case 0: whole.push_back(p.gathered(any(split))); break;
        case 1: whole.push_back(p.product(any(whole), any(whole), B())); break;
        case 2: split.push_back(p.product(any(split), any(whole), S(0))); break;
        default: split.push_back(p.laid(build::exp(p.b, any(split)), S(0))); break;
      }
    }
    for (int edge = 0; edge < 3; ++edge) {
      NodeId a(random() % p.graph.nodes.size()), b(random() % p.graph.nodes.size());
      if (a < b) p.graph.nodes[b].after.push_back(a);
    }
    p.graph.outputs = {{"a", split.back()}, {"b", whole.back()}};
    OrderedGraph made = p.ordered(), again = p.ordered();
    verify(made.graph);  // producers before consumers
    std::size_t edges = 0, given_edges = 0;
    for (NodeId n : p.graph.nodes.ids()) given_edges += p.graph.nodes[n].after.size();
    for (NodeId n : made.graph.nodes.ids())
      for (NodeId before : made.graph.nodes[n].after) {
        EXPECT_LT(before, n) << "KAREZ_SEED=" << seed + round;
        ++edges;
      }
    EXPECT_EQ(edges, given_edges);
    EXPECT_EQ(print(made.graph), print(again.graph));
    EXPECT_LE(made.seconds, made.traced_seconds);
    changed += made.seconds < made.traced_seconds;
    ASSERT_FALSE(HasFailure()) << "KAREZ_SEED=" << seed + round;
  }
  EXPECT_GT(changed, 20);
  EXPECT_LT(changed, 200);
}

TEST(Order, ControlEdgesThatFormACycleAreAnError) {
  Step s;
  ValueId x = s.input("x"), y = build::exp(s.b, x);
  s.graph.outputs = {{"y", y}};
  s.graph.nodes[NodeId(0)].after = {NodeId(1)};
  Compilation c = testing::compilation(s.graph);
  try {
    run_passes(c, {"order"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "order: the graph has a cycle through a variable's readers and its writer");
  }
}

TEST(Order, AVariableThatIsWrittenButHasNoNodeIsAnError) {
  Step s;
  Variable variable;
  variable.name = "w";
  variable.type = square;
  variable.updated = s.input("x");
  s.graph.variables.push_back(variable);
  Compilation c = testing::compilation(s.graph);
  try {
    run_passes(c, {"order"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "variable 'w' is updated but the graph has no node that reads it");
  }
}

}  // namespace
}  // namespace karez::passes
