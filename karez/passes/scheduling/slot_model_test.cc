// Tests of slot problems of segments (pipelines of equal stages, runs of segments, variables, control edges) and of the
// resulting slots.
#include "karez/passes/scheduling/slot_model.h"

#include <gtest/gtest.h>

#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

constexpr std::int64_t n = 64;

// A forward pass with one product per stage, and a backward pass: first the product for which the previous stage waits,
// then the weight gradient, which is summed over micro-batches and becomes the new weight. A product takes a second;
// other nodes take almost no time.
struct PipelineGraph {
  Graph graph;
  Builder b{graph, testing::table()};
  std::vector<ValueId> in, weight, gradient;  // by stage
  CostTable costs;
  Compilation c;

  explicit PipelineGraph(int stages, int microbatches, bool is_prefetched = false) {
    const TensorType type{DType::f32, {n, n}};
    graph.meshes = {Mesh::parse("")};  // mesh 0 is not a placement
    for (int i = 0; i < stages; ++i) graph.meshes.push_back(Mesh({}, {{0, i}}));
    ValueId activation;
    for (int i = 0; i < stages; ++i) {
      b.mesh = i + 1;
      weight.push_back(testing::parameter(b, cat("w", i), type));
      graph.variables.back().mesh = i + 1;
      in.push_back(i > 0           ? b.transfer_to_mesh(activation, i + 1)
                   : is_prefetched ? build::prefetched_input(b, "x", type)
                                   : build::input(b, "x", type));
      activation = build::matmul(b, in[i], weight[i]);
    }
    for (int i = stages; i-- > 0;) {
      b.mesh = i + 1;
      const ValueId output_gradient = b.transfer_to_mesh(activation, i + 1);
      if (i > 0) activation = build::matmul(b, output_gradient, weight[i], {.transpose_b = true});
      gradient.push_back(build::matmul(b, in[i], output_gradient, {.transpose_a = true}));
      const ValueId sum = b.one("accumulate", {gradient.back()});
      graph.variables[i].updated = b.one("assign", {weight[i], sum});
    }
    for (Value& value : graph.values) value.layout = Layout{};
    for (Node& node : graph.nodes)
      if (node.op->role != Role::state && node.op->role != Role::update && node.op->role != Role::store)
        node.acts = microbatches;
    costs.call = 0;
    costs.matmul_flops = 2.0 * n * n * n;
    costs.memory_bytes = 1e12;
    costs.link = {.alpha = 1e-9, .beta = 0};
    c = testing::compilation(graph);
    c.options.costs = costs;
    run_passes(c, {"order", "segment", "slots"});
  }

  // Returns the slots of the first node with this op on the stage.
  int slots_of(std::string_view op, int stage) const {
    for (const Node& node : c.graph.nodes)
      if (node.op->name == op && c.graph.value(node.outputs[0]).mesh == stage + 1)
        return c.slot_assignment.slots[node.outputs[0]];
    return -1;
  }
};

TEST(MicroSlots, APipelineStageNeedsOneSlotForItselfAndEachLaterStage) {
  for (int p : {2, 3, 4, 5}) {
    const PipelineGraph pipeline(p, 8);
    EXPECT_EQ(pipeline.slots_of("input", 0), p) << p << " stages";
    EXPECT_EQ(pipeline.slots_of("matmul", p - 1), 1) << "the last stage begins its backward pass immediately";
    for (int i = 1; i < p; ++i)
      EXPECT_EQ(pipeline.slots_of("transfer", i), p - i) << p << " stages, stage " << i << "\n"
                                                         << print(pipeline.c.graph);
  }
}

TEST(MicroSlots, SlotsAreAtMostTheNumberOfMicroBatches) {
  const PipelineGraph pipeline(5, 2);
  EXPECT_EQ(pipeline.slots_of("input", 0), 2);
  EXPECT_EQ(pipeline.slots_of("transfer", 1), 2);
  EXPECT_EQ(pipeline.slots_of("transfer", 4), 1);
  EXPECT_EQ(PipelineGraph(1, 8).slots_of("input", 0), 1) << "one device computes micro-batches one after another";
  EXPECT_EQ(PipelineGraph(1, 8, true).slots_of("input", 0), 2) << "prefetched inputs have two slots";
}

TEST(MicroSlots, SlotsAreReducedStepByStepToOneForEveryValue) {
  const PipelineGraph pipeline(4, 8);
  const auto steps = fewer_slots(pipeline.c.graph, pipeline.c.segmentation, pipeline.costs, 2);
  ASSERT_GE(steps.size(), 6u) << "the slots must be removed in small steps";
  double previous_interval = pipeline.c.slot_assignment.interval;
  for (const auto& slots : steps) {
    const SlotAssignment assignment = assign_slots(pipeline.c.graph, pipeline.c.segmentation, pipeline.costs, slots);
    EXPECT_GE(assignment.interval, previous_interval);
    previous_interval = assignment.interval;
  }
  EXPECT_EQ(*std::max_element(steps.back().begin(), steps.back().end()), 1);
  EXPECT_GT(previous_interval, 2 * pipeline.c.slot_assignment.interval)
      << "each micro-batch must pass all stages before the next one begins";
}

// Returns the seconds of the actors on a stage.
std::vector<double> seconds_on(const PipelineGraph& pipeline, const SlotModel& model, int stage) {
  std::vector<double> out;
  for (std::size_t a = 0; a < model.segment.size(); ++a)
    if (const Segment& s = pipeline.c.segmentation.segments[model.segment[a]];
        s.stream == StreamKind::compute && s.mesh == stage + 1)
      out.push_back(model.problem.actors[a].seconds);
  return out;
}

SlotRanges ranges_of(const PipelineGraph& pipeline, SlotRange range) {
  return SlotRanges(pipeline.c.graph.values.size(), range);
}

TEST(SlotModel, AnInputGradientAndTheWeightGradientAfterItAreOneActor) {
  const PipelineGraph pipeline(3, 4);
  const SlotModel model =
      micro_model(pipeline.c.graph, pipeline.c.segmentation, pipeline.costs, ranges_of(pipeline, {1, 4}));
  const double forward_and_backward[] = {1, 2}, one_actor[] = {3}, first[] = {1, 1};
  auto expect = [&](int stage, std::span<const double> expected) {
    const auto actual = seconds_on(pipeline, model, stage);
    ASSERT_EQ(actual.size(), expected.size()) << "stage " << stage;
    for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-3) << "stage " << stage;
  };
  expect(0, first);
  expect(1, forward_and_backward);  // between the two actors, the stage waits for the last stage
  expect(2, one_actor);             // the last stage has no wait in between
  for (const auto& actor : model.problem.actors) EXPECT_EQ(actor.acts, 1);
  for (const auto& edge : model.edge) EXPECT_EQ(edge.variable, -1) << "variables are written once per launch";
  EXPECT_EQ(model.mesh, (std::vector<int>{1, 2, 3}));
}

TEST(SlotModel, TheModelOfALaunchHasAllActsAndTheEdgesOfVariables) {
  const PipelineGraph pipeline(2, 4);
  const SlotModel model =
      launch_model(pipeline.c.graph, pipeline.c.segmentation, pipeline.costs, ranges_of(pipeline, {2, 3}));
  EXPECT_EQ(model.segment.size(), pipeline.c.segmentation.segments.size());
  int variables = 0, values = 0, sums = 0;
  for (std::size_t r = 0; r < model.edge.size(); ++r) {
    const auto& reg = model.problem.registers[r];
    const auto& edge = model.edge[r];
    if (edge.variable >= 0) {
      ++variables;
      EXPECT_EQ(reg.filled, 1);
      EXPECT_EQ(reg.max_slots, 1);
      for (const auto& reader : reg.consumers) {
        const int acts = model.problem.actors[static_cast<std::size_t>(reader.actor)].acts;
        EXPECT_EQ(reader.period, acts) << "a weight is held for all micro-batches";
      }
    } else if (edge.value.valid()) {
      ++values;
      EXPECT_EQ(reg.min_slots, 2);
      EXPECT_EQ(reg.max_slots, 3);
      EXPECT_EQ(reg.bytes, n * n * 4);
      const Node& producer_node = pipeline.c.graph.node(pipeline.c.graph.value(edge.value).producer);
      if (producer_node.op->name != "accumulate") continue;
      ++sums;
      EXPECT_EQ(reg.period, 4) << "a sum is filled after the last act";
    }
  }
  EXPECT_EQ(variables, 2);
  EXPECT_EQ(sums, 2);
  EXPECT_GE(values, 4);
  EXPECT_GT(pipeline.c.slot_assignment.interval, 4 * 3.0)
      << "the last stage computes three products for each of four micro-batches, but must wait for the first of them";
}

TEST(SlotModel, AControlEdgeIsARegisterWithoutBytes) {
  Graph graph;
  Builder b(graph, testing::table());
  graph.meshes = {Mesh::parse("data=2")};
  const TensorType type{DType::f32, {n, n}};
  const ValueId x = build::input(b, "x", type), y = build::input(b, "y", type);
  const ValueId first = build::exp(b, x), later_value = build::neg(b, y);
  graph.outputs = {{"a", first}, {"b", later_value}};
  for (Value& value : graph.values) value.layout = Layout{B()};
  graph.node(graph.value(later_value).producer).after.push_back(graph.value(first).producer);
  Segmentation segmentation;
  for (NodeId id : graph.nodes.ids()) {
    const StreamKind stream = graph.node(id).op->role == Role::source ? StreamKind::host : StreamKind::compute;
    segmentation.segment_of.push_back(segmentation.segments.add({stream, {id}, 0}));
  }
  const SlotModel model = launch_model(graph, segmentation, CostTable(), SlotRanges(graph.values.size(), {1, 2}));
  int control = 0;
  for (std::size_t r = 0; r < model.edge.size(); ++r) {
    if (!model.edge[r].later.valid()) continue;
    ++control;
    EXPECT_EQ(model.edge[r].later, graph.value(later_value).producer);
    EXPECT_EQ(model.problem.registers[r].bytes, 0);
    EXPECT_EQ(model.problem.registers[r].max_slots, 1);
  }
  EXPECT_EQ(control, 1);
}

// One stage, with each node in a separate segment. In the model of micro-batches the four calls from `first` to `third`
// are one actor, because only the first of them waits for an input; the call `once` between them does not separate
// them. In the model of a launch the control edge from `once` is a register with period 1 for its producer. An empty
// value counts as one byte.
TEST(SlotModel, ARunOfSegmentsIsOneActorEvenIfACallBetweenThemActsOnce) {
  Graph graph;
  Builder b(graph, testing::table());
  graph.meshes = {Mesh({}, {{0, 0}})};
  const TensorType type{DType::f32, {n, n}};
  const ValueId x = build::input(b, "x", type), other = build::input(b, "other", type),
                empty = build::input(b, "empty", {DType::f32, {0, 4}});
  const ValueId two = build::constant(b, type, 2), first = build::mul(b, x, two), once = build::exp(b, other),
                second = build::matmul(b, first, first), third = build::mul(b, build::matmul(b, second, first), second),
                empty_result = build::exp(b, empty), negated = build::neg(b, other);
  graph.outputs = {{"a", third}, {"b", empty_result}, {"c", negated}, {"d", once}};
  for (Value& value : graph.values) value.layout = Layout{};
  for (Node& node : graph.nodes)
    if (node.op->role != Role::constant) node.acts = 4;
  const NodeId once_a_launch = graph.value(once).producer, later = graph.value(negated).producer;
  graph.node(once_a_launch).acts = 1;
  graph.node(later).after.push_back(once_a_launch);
  Segmentation segmentation;
  for (NodeId id : graph.nodes.ids()) {
    const StreamKind stream = graph.node(id).op->role == Role::source ? StreamKind::host : StreamKind::compute;
    segmentation.segment_of.push_back(segmentation.segments.add({stream, {id}, 0}));
  }
  const SlotRanges ranges(graph.values.size(), {1, 4});
  auto registers_of = [&](const SlotModel& model, ValueId value) {
    std::vector<solve::SlotProblem::Register> found;
    for (std::size_t r = 0; r < model.edge.size(); ++r)
      if (model.edge[r].value == value) found.push_back(model.problem.registers[r]);
    return found;
  };
  const SlotModel microbatches = micro_model(graph, segmentation, CostTable(), ranges);
  EXPECT_EQ(registers_of(microbatches, x).size(), 1u);
  EXPECT_TRUE(registers_of(microbatches, first).empty() && registers_of(microbatches, second).empty())
      << "values that only one actor uses need no register";
  EXPECT_EQ(registers_of(microbatches, empty).at(0).bytes, 1);
  const SlotModel launch = launch_model(graph, segmentation, CostTable(), ranges);
  EXPECT_EQ(registers_of(launch, first).at(0).consumers.size(), 2u)
      << "a consumer that reads the value twice must be listed once";
  EXPECT_TRUE(registers_of(launch, two).empty()) << "constants need no register";
  for (std::size_t r = 0; r < launch.edge.size(); ++r) {
    const auto& reg = launch.problem.registers[r];
    EXPECT_GE(reg.period, 1);
    if (launch.edge[r].later == later) {
      EXPECT_EQ(reg.period, 1) << "the producer acts once for four acts of the consumer";
    }
  }
}

// The program has an all_gather, a window on its result, and a transfer of the window to other devices. With one slot
// each, the next all_gather waits until the window is sent, because the window is not a copy. The all_gather and the
// transfer each act four times and take a second per act.
TEST(LaunchSimulation, AReaderThroughAWindowHoldsTheWindowedValue) {
  Graph graph;
  graph.meshes = {Mesh::parse(""), Mesh({{"a", 2}}, {{0, 0}, {0, 1}}), Mesh({{"a", 2}}, {{0, 2}, {0, 3}})};
  Builder b{graph, testing::table()};
  auto with_layout = [&](ValueId value, const Layout& layout) { return graph.value(value).layout = layout, value; };
  b.mesh = 1;
  const ValueId x = with_layout(build::input(b, "x", {DType::f32, {4, 4}}), {S(0)});
  const Attrs gather = Attrs().set("axis", 0).set("move", "all_gather").set("from", "S(0)").set("to", "B");
  const ValueId whole = with_layout(b.one("box", {x}, gather), {B()});
  const ValueId window = with_layout(build::reshape(b, whole, {16}), {B()});
  b.mesh = 2;
  graph.outputs = {{"y", with_layout(build::exp(b, with_layout(b.transfer_to_mesh(window, 2), {B()})), {B()})}};
  for (NodeId n : graph.nodes.ids()) graph.nodes[n].acts = 4;
  Compilation c = testing::compilation(graph);
  c.options.costs.link = {.alpha = 1, .beta = 0};
  c.options.costs.memory_bytes = 1e300, c.options.costs.call = 0;
  run_passes(c, {"order", "segment"});
  auto seconds = [&](int slots) {
    return simulate_launch(c.graph, c.segmentation, ById<ValueId, int>(c.graph.values.size(), slots), c.options.costs)
        .seconds;
  };
  EXPECT_NEAR(seconds(1), 8, 1e-6);
  EXPECT_NEAR(seconds(2), 5, 1e-6);
}

}  // namespace
}  // namespace karez::passes
