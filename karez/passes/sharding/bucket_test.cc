// Tests of the bucket pass: which nodes may be merged, the merged graph, and the choice of a bucket size that is close
// to the best one.
#include "karez/passes/sharding/bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "karez/base/test_golden.h"
#include "karez/passes/scheduling/order.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::count_op;
using testing::table;

CostTable slow_network() {
  CostTable costs;
  costs.link = {1e-4, 1e-9};
  return costs;
}

// Builds programs of all_reduces that do not depend on each other.
struct Sums {
  Graph graph;
  Builder b{graph, table()};
  explicit Sums(const char* mesh = "data=2") { graph.meshes = {Mesh::parse(mesh)}; }

  ValueId with_layout(ValueId value, Layout layout) {
    graph.value(value).layout = std::move(layout);
    return value;
  }
  ValueId input_value(const Shape& shape, Layout layout, DType dtype = DType::f32) {
    return with_layout(build::input(b, cat("x", graph.nodes.size()), {dtype, shape}), std::move(layout));
  }
  ValueId reduced(ValueId value, int axis = 0) {
    Layout new_layout = *graph.value(value).layout;
    const std::string from = print(new_layout[static_cast<std::size_t>(axis)]);
    new_layout[static_cast<std::size_t>(axis)] = B();
    return with_layout(
        b.one("box", {value}, Attrs().set("axis", axis).set("move", "all_reduce").set("from", from).set("to", "B")),
        new_layout);
  }
  NodeId sum(const Shape& shape, Layout layout = {P()}, DType dtype = DType::f32) {
    const ValueId out = reduced(input_value(shape, std::move(layout), dtype));
    graph.outputs.push_back({cat("y", graph.nodes.size()), out});
    return graph.value(out).producer;
  }
  std::vector<Bucket> buckets(std::int64_t bytes, const CostTable& costs = slow_network()) const {
    return buckets_of(graph, costs, bytes);
  }
};

TEST(Bucket, ConsecutiveNodesAreMergedUpToTheSizeLimit) {
  Sums s;
  const NodeId a = s.sum({10}), b = s.sum({2, 5}), large = s.sum({100}), c = s.sum({10}), d = s.sum({10}),
               e = s.sum({});
  EXPECT_EQ(s.buckets(4000), (std::vector<Bucket>{{a, b, large, c, d, e}}));
  EXPECT_EQ(s.buckets(120), (std::vector<Bucket>{{a, b, c}, {d, e}}))
      << "the large node is not grouped, and the others skip it";
  EXPECT_EQ(s.buckets(84), (std::vector<Bucket>{{a, b}, {c, d, e}}));
  EXPECT_EQ(s.buckets(40), std::vector<Bucket>{}) << "nodes that no other node can join are not changed";
}

TEST(Bucket, NodesThatDifferInAxisLayoutTypeOrReductionStaySeparate) {
  Sums s("data=2,model=2");
  const NodeId a = s.sum({4}, {P(), B()}), ints = s.sum({4}, {P(), B()}, DType::i32),
               max_box = s.sum({4}, {P(Reduce::max), B()}), b = s.sum({4}, {P(), B()}), both = s.sum({4}, {P(), P()}),
               more_ints = s.sum({4}, {P(), B()}, DType::i32), both_again = s.sum({4}, {P(), P()});
  s.sum({4}, {P(), S(0)});  // each device has different elements
  s.sum({4}, {P(), S(0)});
  s.graph.outputs.push_back({"z", s.reduced(s.input_value({4}, {B(), P()}), 1)});
  EXPECT_EQ(s.buckets(1000), (std::vector<Bucket>{{a, b}, {ints, more_ints}, {both, both_again}}));
  (void)max_box;
}

TEST(Bucket, ANodeThatDependsOnAMemberIsNotAMember) {
  Sums s;
  const NodeId a = s.sum({4});
  const ValueId dependent = s.with_layout(build::exp(s.b, s.graph.node(a).outputs[0]), {B()});
  const ValueId part =
      s.with_layout(s.b.one("box", {dependent},
                            Attrs().set("axis", 0).set("move", "to_partial").set("from", "B").set("to", "P(sum)")),
                    {P()});
  const NodeId b = s.graph.value(s.reduced(part)).producer, c = s.sum({4});
  EXPECT_EQ(s.buckets(1000), (std::vector<Bucket>{{b, c}}));
  (void)a;
}

TEST(Bucket, AnAxisWithLowLatencyIsSkipped) {
  Sums s("data=2,model=2");
  s.sum({4}, {P(), B()});
  s.sum({4}, {P(), B()});
  CostTable costs;
  costs.axis_links = {{"data", {9e-6, 1e-9}}, {"model", {1, 1}}};
  EXPECT_TRUE(s.buckets(1000, costs).empty());
  EXPECT_EQ(bucket(s.graph, table(), costs, 2).bytes, 0);
  costs.axis_links = {{"data", {1e-5, 1e-9}}};
  EXPECT_FALSE(s.buckets(1000, costs).empty()) << "links of other axes have no effect";
}

// Two buckets of different axes depend on each other, so nothing is merged.
TEST(Bucket, ACycleLeavesTheGraphUnchanged) {
  Sums s("data=2,model=2");
  const ValueId a1 = s.reduced(s.input_value({4}, {P(), B()}));
  auto part = [&](ValueId value, int axis) {
    Layout layout{B(), B()};
    layout[static_cast<std::size_t>(axis)] = P();
    return s.with_layout(
        s.b.one("box", {value},
                Attrs().set("axis", axis).set("move", "to_partial").set("from", "B").set("to", "P(sum)")),
        layout);
  };
  const ValueId b1 = s.reduced(part(a1, 1), 1);
  const ValueId b2 = s.reduced(s.input_value({4}, {B(), P()}), 1);
  const ValueId a2 = s.reduced(part(b2, 0));
  s.graph.outputs = {{"b1", b1}, {"a2", a2}};
  auto box = [&](ValueId value) { return s.graph.value(value).producer; };
  const std::vector<Bucket> buckets{{box(a1), box(a2)}, {box(b1), box(b2)}};
  EXPECT_EQ(s.buckets(1000), buckets);
  EXPECT_EQ(print(merge_buckets(s.graph, table(), buckets)), print(s.graph));
}

TEST(Bucket, MembersAreConcatenatedBeforeTheSumAndSplitAfterIt) {
  Sums s;
  s.sum({2, 3});
  s.sum({4});
  const Graph merged = merge_buckets(s.graph, table(), s.buckets(1000));
  verify(merged);
  const char* expected = R"text(graph main mesh(data=2) {
  %0 = input() {dtype="f32", name="x0", shape=[2, 3]} : f32[2, 3; sum@data]
  %1 = input() {dtype="f32", name="x2", shape=[4]} : f32[4; sum@data]
  %2 = reshape(%0) {shape=[6]} : f32[6; sum@data]
  %3 = concat(%2, %1) {axis=0} : f32[10; sum@data]
  %4 = box(%3) {axis=0, from="P(sum)", move="all_reduce", to="B"} : f32[10;]
  %5 = slice(%4) {begin=[0], size=[6]} : f32[6;]
  %6 = reshape(%5) {shape=[2, 3]} : f32[2, 3;]
  %7 = slice(%4) {begin=[6], size=[4]} : f32[4;]
  output "y2" %6
  output "y4" %7
}
)text";
  EXPECT_TRUE(golden(print(merged), expected));
}

TEST(Bucket, AReaderOfAMemberComesAfterTheBucket) {
  Sums s;
  const NodeId a = s.sum({4});
  const ValueId reader = s.with_layout(build::exp(s.b, s.graph.node(a).outputs[0]), {B()});
  s.sum({4});
  s.graph.outputs.push_back({"reader", reader});
  const Graph merged = merge_buckets(s.graph, table(), s.buckets(1000));
  verify(merged);
  EXPECT_EQ(count_op(merged, "box"), 1);
  EXPECT_EQ(merged.node(merged.value(merged.outputs.back().value).producer).op->name, "exp");
}

// Returns a training step with a split batch, compiled up to `bucket`. Its layouts are always chosen for the same
// network, so that all tests have the same layouts.
Graph boxed_step(const std::vector<std::int64_t>& sizes, std::int64_t batch, int devices) {
  Graph graph = testing::mlp_step(Mesh::of({{"data", devices}}), sizes, batch);
  for (const Node& node : graph.nodes)
    if (node.op->name == "input" && graph.type(node.outputs[0]).shape.size() > 1)
      graph.value(node.outputs[0]).layout = Layout{S(0)};
  for (Variable& variable : graph.variables) variable.stored = Layout{B()};
  Compilation c = testing::compilation(std::move(graph));
  c.options.costs.link = {1e-6, 1e-9};
  run_passes(c, {"canonicalise", "shard", "box"});
  return std::move(c.graph);
}

double seconds_with(const Graph& graph, const CostTable& costs, std::int64_t bytes) {
  return order(merge_buckets(graph, table(), buckets_of(graph, costs, bytes)), table(), costs, 2).seconds;
}

struct Network {
  const char* name;
  LinkCost link;
};
constexpr Network networks[] = {{"near", {1.2e-5, 1e-10}}, {"far", {1e-4, 1e-8}}, {"satellite", {5e-3, 1e-9}}};

// The best bucket size differs between the three networks. On each network, the launch takes at most 5 % longer than
// with the best size of a sweep.
TEST(Bucket, TheLaunchIsWithinFivePercentOfTheBestSizeOfASweepAndTheSizeDependsOnTheNetwork) {
  const std::vector<std::int64_t> sizes{256, 256, 256, 256, 256, 256, 256, 256, 10};
  for (int devices : {2, 4}) {
    std::vector<std::int64_t> chosen;
    for (const Network& network : networks) {
      CostTable costs;
      costs.link = network.link;
      const Graph graph = boxed_step(sizes, 256, devices);
      const BucketedGraph result = bucket(graph, table(), costs, 2);
      double best = order(graph, table(), costs, 2).seconds;
      EXPECT_EQ(result.seconds_before, best);
      for (double bytes = 100; bytes < 4e6; bytes *= 1.3)
        best = std::min(best, seconds_with(graph, costs, static_cast<std::int64_t>(bytes)));
      EXPECT_LE(result.seconds, 1.05 * best) << network.name << " on " << devices << " devices";
      EXPECT_EQ(result.seconds, order(result.graph, table(), costs, 2).seconds);
      std::printf(
          "%-10s %d devices: %7.0f us without buckets, %7.0f with at most %lld bytes, %7.0f with the best size of a "
          "sweep\n",
          network.name, devices, 1e6 * result.seconds_before, 1e6 * result.seconds,
          static_cast<long long>(result.bytes), 1e6 * best);
      chosen.push_back(result.bytes);
    }
    EXPECT_NE(chosen[0], chosen[2]);
    if (devices == 2) {
      EXPECT_TRUE(chosen[0] < chosen[1] && chosen[1] < chosen[2]) << "buckets grow with the cost of a message";
    }
  }
}

TEST(Bucket, TheFirstMemberDoesNotWaitForTheLastIfTheWaitCostsMoreThanAMessage) {
  CostTable costs;
  costs.link = {1.2e-5, 1e-8};
  const Graph graph = boxed_step({256, 256, 256, 256, 256, 256, 256, 256, 10}, 256, 2);
  const double single_bucket = seconds_with(graph, costs, std::int64_t{1} << 30),
               merged_seconds = bucket(graph, table(), costs, 2).seconds;
  EXPECT_LT(merged_seconds, 0.9 * single_bucket) << "a single bucket does not overlap with computation";
}

TEST(Bucket, TheSameBytesAreSentInFewerMessagesAndConcatenatedValuesHaveTheirOwnMemory) {
  auto compile_step = [](bool off) {
    Compilation c = testing::compilation(boxed_step({256, 256, 256, 10}, 256, 2));
    c.options.costs.link = {5e-3, 1e-9};
    if (!off) run_passes(c, {"bucket"});
    run_passes(c, {"order", "segment", "anchor", "slots", "layout", "localise", "hoist", "fuse", "in_place", "emit",
                   "results", "memory"});
    return c.plan;
  };
  auto sent = [](const Plan& plan) {
    return std::accumulate(plan.transfers.begin(), plan.transfers.end(), std::int64_t{0},
                           [](std::int64_t sum, const Transfer& t) { return sum + t.bytes; });
  };
  const Plan plan_without = compile_step(true), plan_with = compile_step(false);
  EXPECT_EQ(sent(plan_with), sent(plan_without));
  EXPECT_LT(plan_with.transfers.size(), plan_without.transfers.size() / 2);
  std::int64_t largest = 0;
  for (const Actor& actor : plan_with.actors)
    if (actor.collective) {
      const Register& in = plan_with.reg(actor.collective->in.reg);
      EXPECT_GE(in.bytes, actor.collective->in.view.bytes());
      largest = std::max(largest, in.bytes);
    }
  EXPECT_GT(largest, 4 * 256 * 256);
}

}  // namespace
}  // namespace karez::passes
