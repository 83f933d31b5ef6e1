// Tests of the slots pass: the fewest slots that keep the interval, fewer slots for less memory, turns of collectives,
// and a step that stalls.
#include "karez/passes/scheduling/slots.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "karez/passes/compile.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/scheduling/segment.h"
#include "karez/passes/sharding/layout_rules.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"
#include "karez/sbp/transition.h"

namespace karez::passes {
namespace {

using testing::table;

struct Program {
  Graph graph;
  Builder b{graph, table()};
  explicit Program(const char* mesh = "data=2") { graph.meshes = {Mesh::parse(mesh)}; }
  ValueId with_layout(ValueId value, Layout layout) {
    graph.value(value).layout = std::move(layout);
    return value;
  }
  Compilation until_slots() {
    Compilation c = testing::compilation(graph);
    run_passes(c, {"order"});
    run_passes(c, {"segment"});
    run_passes(c, {"slots"});
    return c;
  }
};

int slots_of(const Compilation& c, std::string_view op, int index = 0) {
  for (const Node& node : c.graph.nodes)
    if (node.op->name == op && index-- == 0) return c.slot_assignment.slots[node.outputs[0]];
  return -1;
}

Attrs gather(int axis, const char* from) {
  return Attrs().set("axis", axis).set("move", "all_gather").set("from", from).set("to", "B");
}

// A program with exp, a transfer that takes `transfer` times as long, and two nodes that together take as long as exp.
struct Relay : Program {
  CostTable costs;
  explicit Relay(double transfer, bool is_prefetched = false) {
    const TensorType type{DType::f32, {1 << 20}};
    ValueId x = with_layout(is_prefetched ? build::prefetched_input(b, "x", type) : build::input(b, "x", type), {S(0)});
    ValueId a = with_layout(build::exp(b, x), {S(0)});
    ValueId transferred = with_layout(b.one("box", {a}, gather(0, "S(0)")), {B()});
    ValueId own_rows = with_layout(
        b.one("box", {transferred}, Attrs().set("axis", 0).set("move", "slice").set("from", "B").set("to", "S(0)")),
        {S(0)});
    graph.outputs = {{"z", with_layout(build::tanh(b, with_layout(build::neg(b, own_rows), {S(0)})), {S(0)})}};
    const double exp = costs.seconds(
        {WorkClass::memory, 0, static_cast<double>(type.bytes())});  // half of the bytes are read, half are written
    costs.link = {.alpha = transfer * exp, .beta = 0};
  }
  Compilation until_slots(int max_slots = 2) {
    Compilation c = testing::compilation(graph);
    c.options.costs = costs;
    c.options.slots = max_slots;
    run_passes(c, {"order", "segment", "slots"});
    return c;
  }
};

// With one slot in each register, a producer, a transfer and its consumer cannot overlap. If they take longer together
// than everything else, a second slot is worth its bytes.
TEST(Slots, AValueHasTwoSlotsIfAStreamWouldWaitForAnotherAndOtherwiseOne) {
  for (int max_slots : {2, 3}) {
    Compilation c = Relay(3).until_slots(max_slots);
    EXPECT_EQ(slots_of(c, "exp"), 2);
    EXPECT_EQ(slots_of(c, "box"), 2);
    EXPECT_EQ(slots_of(c, "neg"), 1) << "no other actor reads this value";
    EXPECT_EQ(slots_of(c, "input"), 1) << "an array that the caller passes needs no second slot";
  }
  Compilation fast = Relay(0.1).until_slots();
  EXPECT_EQ(slots_of(fast, "exp"), 1);
  EXPECT_EQ(slots_of(fast, "box"), 1);
  Compilation single_slot = Relay(3).until_slots(1);
  EXPECT_EQ(slots_of(single_slot, "exp"), 1) << "the options allow only one slot";
}

TEST(Slots, PrefetchedInputsHaveTwoSlots) {
  Compilation c = Relay(0.1, true).until_slots();
  EXPECT_EQ(slots_of(c, "input"), 2);
  EXPECT_EQ(slots_of(c, "exp"), 1);
  EXPECT_EQ(slots_of(Relay(0.1, true).until_slots(1), "input"), 1);
}

TEST(Slots, StepsWithFewerSlotsAreNeverFasterAndEndWithOneSlotForEveryValue) {
  Relay relay(3, true);
  Compilation c = relay.until_slots();
  const auto steps = fewer_slots(c.graph, c.segmentation, relay.costs, 2);
  ASSERT_GE(steps.size(), 2u);
  SlotAssignment previous = c.slot_assignment;
  EXPECT_GT(previous.interval, 0);
  for (const auto& slots : steps) {
    const SlotAssignment next = assign_slots(c.graph, c.segmentation, relay.costs, slots);
    EXPECT_NE(next.slots, previous.slots);
    for (ValueId v : c.graph.values.ids()) EXPECT_LE(next.slots[v], previous.slots[v]);
    EXPECT_GE(next.interval, previous.interval);
    EXPECT_EQ(next.turns, c.slot_assignment.turns);
    previous = next;
  }
  EXPECT_GT(previous.interval, 1.2 * c.slot_assignment.interval)
      << "the interval with one slot per value is about 4/3 as long";
  EXPECT_EQ(*std::max_element(previous.slots.begin(), previous.slots.end()), 1);
  Compilation fast = Relay(0.1).until_slots();
  EXPECT_TRUE(fewer_slots(fast.graph, fast.segmentation, fast.options.costs, 2).empty()) << "no slot can be removed";
}

TEST(Slots, ATransferOfAWindowReadsTheWindowedValue) {
  Program p;
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {8, 2}}), {S(0)});
  ValueId a = p.with_layout(build::exp(p.b, x), {S(0)});
  ValueId t = p.with_layout(
      build::reshape(p.b, build::transpose(p.b, p.with_layout(build::neg(p.b, a), {S(0)}), {1, 0}), {2, 8, 1}), {S(1)});
  for (Value& value : p.graph.values)
    if (!value.layout) value.layout = Layout{S(1)};
  p.graph.outputs = {{"z", p.with_layout(p.b.one("box", {t}, gather(0, "S(1)")), {B()})}};
  Compilation c = p.until_slots();
  EXPECT_EQ(slots_of(c, "reshape"), 2);
  EXPECT_EQ(slots_of(c, "transpose"), 2);
  EXPECT_EQ(slots_of(c, "neg"), 2) << "the transfer reads its register";
  EXPECT_EQ(slots_of(c, "exp"), 1);
}

TEST(Slots, TurnsAreNumberedSeparatelyForEachAxisWithoutGaps) {
  Graph graph = testing::mlp_step(Mesh::parse("data=2,model=2"), {16, 32, 8}, 16);
  LayoutRule rules[] = {{"fc1.weight", {"model"}}, {"fc2.weight", {"", "model"}}};
  apply_rules(graph, rules);
  graph.value(graph.nodes[NodeId(0)].outputs[0]).layout = Layout{S(0), B()};
  Compilation c = testing::compilation(std::move(graph));
  compile(c);
  std::set<int> turns[2];
  std::size_t crossing = 0;
  for (NodeId n : c.graph.nodes.ids()) {
    bool comm = c.stream[n] == StreamKind::comm;
    EXPECT_EQ(!c.slot_assignment.turns[n].empty(), comm);
    if (!comm) continue;
    ++crossing;
    EXPECT_TRUE(turns[c.graph.nodes[n].attrs.integer("axis")].insert(c.slot_assignment.turns[n].at(0)).second);
  }
  EXPECT_EQ(turns[0].size() + turns[1].size(), crossing);
  for (const auto& axis : turns) {
    ASSERT_GT(axis.size(), 0u) << print(c.graph);
    EXPECT_EQ(*axis.rbegin(), static_cast<int>(axis.size()) - 1);
  }
}

TEST(Slots, TurnsFollowTheTimeAtWhichOperandsAreReady) {
  Program p;
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {1024, 1024}}), {S(0)});
  ValueId slow = p.with_layout(
      build::matmul(p.b, x, p.with_layout(build::input(p.b, "w", {DType::f32, {1024, 1024}}), {B()})), {S(0)});
  ValueId y = p.with_layout(build::input(p.b, "y", {DType::f32, {8}}), {S(0)});
  ValueId first = p.with_layout(p.b.one("box", {slow}, gather(0, "S(0)")), {B()});
  ValueId second = p.with_layout(p.b.one("box", {y}, gather(0, "S(0)")), {B()});
  p.graph.outputs = {{"first", first}, {"second", second}};
  Compilation c = p.until_slots();
  std::vector<int> turns;
  for (NodeId n : c.graph.nodes.ids())
    if (c.stream[n] == StreamKind::comm) turns.push_back(c.slot_assignment.turns[n].at(0));
  EXPECT_EQ(turns, (std::vector<int>{1, 0})) << "the small transfer does not wait for the matmul";
}

// Axis 1 has two transfers: one waits for a product, and one waits for a transfer on axis 0. The transfer on axis 0
// takes longer than a quarter of the product but less time than the full product. On four devices, a product that every
// device computes in full therefore ends after the transfer on axis 0, and a split product ends before it.
TEST(Slots, AProductThatEveryDeviceComputesInFullTakesItsFullTime) {
  CostTable costs;
  Mesh mesh = Mesh::parse("data=2,model=2");
  const std::int64_t n = 512;
  Cost full_product = cost_of(table().at("matmul"), std::vector<TensorType>(2, {DType::f32, {n, n}}),
                              std::vector<TensorType>{{DType::f32, {n, n}}}, {});
  double product = costs.seconds(full_product);
  TensorType transferred{DType::f32, {64, 2}};
  auto transfer = [&] { return seconds(transferred, mesh, {0, Move::all_gather, {S(0), S(1)}, {B(), S(1)}}, costs); };
  while (transfer() < product / 2.5) transferred.shape[0] += 64;
  ASSERT_LT(transfer(), product * 0.8);
  for (bool split : {false, true}) {
    Program p("data=2,model=2");
    Layout replicated = {B(), B()}, rows = split ? Layout{S(0), S(0)} : replicated;
    ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {n, n}}), rows);
    ValueId w = p.with_layout(build::input(p.b, "w", {DType::f32, {n, n}}), replicated);
    ValueId product_value = p.with_layout(build::matmul(p.b, x, w), rows);
    ValueId small = p.with_layout(build::reduce_sum(p.b, product_value, {1}), split ? Layout{S(0), S(0)} : replicated);
    ValueId own_rows =
        split ? small
              : p.with_layout(p.b.one("box", {small},
                                      Attrs().set("axis", 1).set("move", "slice").set("from", "B").set("to", "S(0)")),
                              {B(), S(0)});
    ValueId y = p.with_layout(build::input(p.b, "y", transferred), {S(0), S(1)});
    ValueId after_product = p.with_layout(p.b.one("box", {own_rows}, gather(1, "S(0)")), {split ? S(0) : B(), B()});
    ValueId first = p.with_layout(p.b.one("box", {y}, gather(0, "S(0)")), {B(), S(1)});
    ValueId after_transfer = p.with_layout(p.b.one("box", {first}, gather(1, "S(1)")), replicated);
    // The product's consumers take longer than the second transfer, so the product's transfer runs first if both are
    // ready.
    ValueId wide =
        p.with_layout(build::broadcast(p.b, after_product, {n, 32 * n}, {0}), split ? Layout{S(0), B()} : replicated);
    p.graph.outputs = {{"a", p.with_layout(build::exp(p.b, wide), split ? Layout{S(0), B()} : replicated)},
                       {"b", after_transfer}};
    Compilation c = p.until_slots();
    std::map<std::string, int> turn;  // on axis 1, by the operand's entry
    for (NodeId v : c.graph.nodes.ids())
      if (!c.slot_assignment.turns[v].empty() && c.graph.nodes[v].attrs.integer("axis") == 1)
        turn[c.graph.nodes[v].attrs.text("from")] = c.slot_assignment.turns[v].at(0);
    EXPECT_EQ(turn["S(0)"], split ? 0 : 1) << (split ? "split product" : "full product") << "\n" << print(c.graph);
    EXPECT_EQ(turn["S(1)"], split ? 1 : 0);
  }
}

TEST(Slots, AStepThatStallsIsAnError) {
  Program p("");
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {8}}), {});
  ValueId a = p.with_layout(build::exp(p.b, x), {});
  ValueId y = p.with_layout(build::neg(p.b, a), {});
  p.graph.outputs = {{"y", p.with_layout(build::tanh(p.b, y), {})}};
  Compilation c = p.until_slots();
  c.segmentation.segments = {Segment{StreamKind::host, {NodeId(0)}},
                             Segment{StreamKind::compute, {NodeId(1), NodeId(3)}},
                             Segment{StreamKind::compute, {NodeId(2)}}};
  c.segmentation.segment_of = {SegmentId(0), SegmentId(1), SegmentId(2), SegmentId(1)};
  try {
    run_passes(c, {"slots"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "slots: the step stalls after 1 of 3 acts: a segment waits for itself");
  }
}

}  // namespace
}  // namespace karez::passes
