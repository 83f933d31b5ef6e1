// Tests of the segment pass: where segments end, and that segments form no cycle.
#include "karez/passes/scheduling/segment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "karez/base/text.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/shard.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

const TensorType vec{DType::f32, {8}};

// A program on two devices. `gathered` makes a split value Broadcast, and `sliced` splits a Broadcast value; the
// results of `exp` and `add` have the layout of their first operand.
struct Program {
  Graph graph;
  Builder b{graph, table()};
  Program() { graph.meshes = {Mesh::parse("data=2")}; }
  ValueId with_layout(ValueId value, Sbp entry) {
    graph.value(value).layout = Layout{entry};
    return value;
  }
  ValueId input(const std::string& name, Sbp entry = S(0)) { return with_layout(build::input(b, name, vec), entry); }
  ValueId exp(ValueId x) { return with_layout(build::exp(b, x), graph.value(x).layout->at(0)); }
  ValueId add(ValueId x, ValueId y) { return with_layout(build::add(b, x, y), graph.value(x).layout->at(0)); }
  ValueId gathered(ValueId x) {
    return with_layout(
        b.one("box", {x}, Attrs().set("axis", 0).set("move", "all_gather").set("from", "S(0)").set("to", "B")), B());
  }
  ValueId sliced(ValueId x) {
    return with_layout(
        b.one("box", {x}, Attrs().set("axis", 0).set("move", "slice").set("from", "B").set("to", "S(0)")), S(0));
  }
  Compilation segmented() {
    Compilation c = testing::compilation(graph);
    run_passes(c, {"order"});
    run_passes(c, {"segment"});
    return c;
  }
};

// "host: input | compute: exp add | comm: box"
std::string text_of(const Compilation& c) {
  return join(c.segmentation.segments, " | ", [&](const Segment& s) {
    return cat(name_of(s.stream), ": ", join(s.nodes, " ", [&](NodeId n) { return c.graph.node(n).op->name; }));
  });
}

// Checks that every node is in one segment of its stream, that only segments of the compute stream have several nodes,
// and that no edge leads to a segment with a lower number.
void check_segments(const Compilation& c) {
  std::size_t nodes = 0;
  for (SegmentId s : c.segmentation.segments.ids()) {
    nodes += c.segmentation.segments[s].nodes.size();
    EXPECT_TRUE(c.segmentation.segments[s].stream == StreamKind::compute ||
                c.segmentation.segments[s].nodes.size() == 1);
    for (NodeId n : c.segmentation.segments[s].nodes) {
      EXPECT_EQ(c.segmentation.segment_of[n], s);
      EXPECT_EQ(c.stream[n], c.segmentation.segments[s].stream);
    }
  }
  EXPECT_EQ(nodes, c.graph.nodes.size());
  for (NodeId n : c.graph.nodes.ids()) {
    auto check = [&](NodeId from) {
      EXPECT_LE(c.segmentation.segment_of[from], c.segmentation.segment_of[n]) << text_of(c);
    };
    for (ValueId in : c.graph.nodes[n].inputs) check(c.graph.value(in).producer);
    for (NodeId predecessor : c.graph.nodes[n].after) check(predecessor);
  }
}

// Of a, b and c, only c depends on a transfer.
TEST(Segment, NodesThatNeedNoTransferDoNotWaitForOne) {
  Program p;
  ValueId a = p.exp(p.input("x"));
  ValueId gathered_value = p.gathered(a);
  ValueId b = p.exp(p.exp(a));
  ValueId c = p.add(p.sliced(gathered_value), b);
  p.graph.outputs = {{"c", c}};
  Compilation segmented = p.segmented();
  check_segments(segmented);
  EXPECT_EQ(text_of(segmented), "host: input | compute: exp | comm: box | compute: exp exp | compute: box add");
}

TEST(Segment, ASegmentEndsAfterTheOperandOfATransfer) {
  Program p;
  ValueId a = p.exp(p.input("x"));
  ValueId b = p.exp(p.exp(a));
  p.graph.outputs = {{"a", p.gathered(a)}, {"b", p.gathered(b)}};
  Compilation segmented = p.segmented();
  check_segments(segmented);
  EXPECT_EQ(text_of(segmented), "host: input | compute: exp | compute: exp exp | comm: box | comm: box")
      << "segments are numbered in the order of their first nodes";
}

TEST(Segment, HostInputsDoNotEndASegment) {
  Program p;
  ValueId a = p.exp(p.input("x"));
  p.graph.outputs = {{"y", p.gathered(p.add(a, p.input("late")))}};
  Compilation segmented = p.segmented();
  check_segments(segmented);
  EXPECT_EQ(text_of(segmented), "host: input | host: input | compute: exp add | comm: box");
}

TEST(Segment, ATransferForWhichTheSegmentAlreadyWaitsDoesNotEndIt) {
  Program p;
  ValueId gathered_value = p.gathered(p.exp(p.input("x")));
  ValueId first = p.exp(gathered_value), second = p.add(gathered_value, first);
  p.graph.outputs = {{"y", second}};
  Compilation segmented = p.segmented();
  check_segments(segmented);
  EXPECT_EQ(text_of(segmented), "host: input | compute: exp | comm: box | compute: exp add");
}

TEST(Segment, AControlEdgeFromATransferEndsASegment) {
  Program p;
  ValueId x = p.input("x"), y = p.input("y"), gathered_value = p.gathered(x);
  ValueId first = p.exp(y), second = p.add(first, y);
  p.graph.outputs = {{"moved", gathered_value}, {"y", second}};
  EXPECT_EQ(text_of(p.segmented()), "host: input | host: input | comm: box | compute: exp add")
      << "without the edge, exp and add are one segment";
  p.graph.node(p.graph.value(second).producer).after = {p.graph.value(gathered_value).producer};
  Compilation segmented = p.segmented();
  check_segments(segmented);
  EXPECT_EQ(text_of(segmented), "host: input | host: input | comm: box | compute: exp | compute: add")
      << "otherwise exp would wait for a transfer that it does not need";
}

// Divides the graph into segments in traced order, with each node on the stream of its role.
Compilation segment_as_traced(const Graph& graph) {
  Compilation c = testing::compilation(graph);
  for (const Node& node : graph.nodes)
    c.stream.push_back(node.op->role == Role::source ? StreamKind::host
                       : crosses_devices(node)       ? StreamKind::comm
                                                     : StreamKind::compute);
  run_passes(c, {"segment"});
  return c;
}

TEST(Segment, NodesThatWaitForAllMicroBatchesShareNoActorWithNodesThatMicroBatchesRead) {
  Program p;
  ValueId x = p.input("x"), y = p.input("y");
  ValueId first = p.exp(y), read = p.exp(x);
  NodeId joined(p.graph.nodes.size());
  ValueId after = p.exp(x);
  ValueId second = p.add(first, read);
  p.graph.outputs = {{"after", after}, {"second", second}};
  for (ValueId v : {y, first, second}) p.graph.nodes[p.graph.value(v).producer].acts = 3;
  // `joined` waits for all acts of `first`, and `second` needs `read`, which acts once.
  p.graph.nodes[joined].after = {p.graph.value(first).producer};
  Compilation c = segment_as_traced(p.graph);
  check_segments(c);
  auto segment_of_value = [&](ValueId v) { return c.segmentation.segment_of[c.graph.value(v).producer]; };
  EXPECT_NE(segment_of_value(read), segment_of_value(after)) << text_of(c);
  EXPECT_NO_THROW(run_passes(c, {"slots"})) << "the two segments must not wait for each other";
}

TEST(Segment, ActorsThatActOncePerLaunchHavePrioritiesInTheirOrder) {
  Program p;
  ValueId a = p.exp(p.input("x"));
  p.graph.outputs = {{"y", p.exp(p.gathered(a))}, {"b", p.exp(a)}};
  Compilation c = segment_as_traced(p.graph);
  ASSERT_GT(c.segmentation.segments.size(), 3u);
  for (SegmentId s : c.segmentation.segments.ids()) EXPECT_EQ(priority_of(c.graph, c.segmentation, s), s.index + 1);
}

TEST(Segment, TheActorNearerToTheEndActsFirstAmongMicroBatches) {
  Program p;
  ValueId x = p.input("x"), acts_once = p.exp(p.input("once"));
  ValueId forward = p.exp(x), middle = p.exp(p.sliced(p.gathered(forward))),
          third = p.exp(p.sliced(p.gathered(middle)));
  p.graph.outputs = {{"once", acts_once}, {"y", third}};
  for (NodeId n : p.graph.nodes.ids())
    if (n != p.graph.value(acts_once).producer && n.index != 1) p.graph.nodes[n].acts = 4;
  Compilation c = segment_as_traced(p.graph);
  check_segments(c);
  auto priority = [&](ValueId v) {
    return priority_of(c.graph, c.segmentation, c.segmentation.segment_of[c.graph.value(v).producer]);
  };
  EXPECT_LT(priority(third), priority(middle)) << text_of(c);
  EXPECT_LT(priority(middle), priority(forward));
  EXPECT_LT(priority(acts_once), priority(third)) << "nodes that micro-batches read come before them";
  std::set<int> priorities;
  for (SegmentId s : c.segmentation.segments.ids())
    EXPECT_TRUE(priorities.insert(priority_of(c.graph, c.segmentation, s)).second) << "no two priorities may be equal";
}

TEST(Segment, AllComputeNodesOfOneDeviceAreOneSegment) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::of({}), {20, 30, 10}, 8));
  run_passes(c, {"shard"});
  run_passes(c, {"box"});
  run_passes(c, {"order"});
  run_passes(c, {"segment"});
  check_segments(c);
  int compute = 0;
  for (const Segment& s : c.segmentation.segments) compute += s.stream == StreamKind::compute;
  EXPECT_EQ(compute, 1) << text_of(c);
}

TEST(Segment, UpdatesAreOneSegmentAlthoughTheirGradientsArriveOneByOne) {
  Graph graph = testing::mlp_step(Mesh::parse("data=4"), {20, 30, 30, 10}, 64);
  for (Variable& variable : graph.variables) variable.stored = Layout{B()};
  graph.value(graph.nodes[NodeId(0)].outputs[0]).layout = Layout{S(0)};
  Compilation c = testing::compilation(std::move(graph));
  c.options.costs.link.alpha = 0;  // so that data parallelism is the fastest
  run_passes(c, {"shard"});
  run_passes(c, {"box"});
  run_passes(c, {"order"});
  run_passes(c, {"segment"});
  check_segments(c);
  std::set<SegmentId> with_updates;
  int comm = 0;
  for (NodeId n : c.graph.nodes.ids())
    if (c.graph.nodes[n].op->name == "sgd") with_updates.insert(c.segmentation.segment_of[n]);
  for (const Segment& s : c.segmentation.segments) comm += s.stream == StreamKind::comm;
  EXPECT_GT(comm, 2) << print(c.graph);
  EXPECT_EQ(with_updates.size(), 1u) << text_of(c);
}

TEST(Segment, AnUpdateThatNeedsATransferOfAnEarlierUpdateIsInADifferentSegment) {
  Program p;
  ValueId lr = p.with_layout(build::input(p.b, "lr", {DType::f32, {}}), B()), sent;
  for (const char* name : {"a", "b"}) {
    Sbp entry = *name == 'a' ? S(0) : B();
    ValueId w = p.with_layout(testing::parameter(p.b, name, vec), entry),
            m = p.with_layout(testing::parameter(p.b, cat("m", name), vec), entry);
    auto next = build::sgd(p.b, w, m, *name == 'a' ? p.input("g") : sent, lr);
    p.with_layout(next.w, entry), p.with_layout(next.m, entry);
    std::size_t last = p.graph.variables.size();
    p.graph.variables[last - 2].updated = next.w, p.graph.variables[last - 1].updated = next.m;
    p.graph.variables[last - 2].stored = p.graph.variables[last - 1].stored = Layout{entry};
    if (*name == 'a') sent = p.gathered(next.w);
  }
  Compilation segmented = p.segmented();
  check_segments(segmented);
  std::set<SegmentId> with_updates;
  for (NodeId n : segmented.graph.nodes.ids())
    if (segmented.graph.nodes[n].op->name == "sgd") with_updates.insert(segmented.segmentation.segment_of[n]);
  EXPECT_EQ(with_updates.size(), 2u) << text_of(segmented);
}

TEST(Segment, RandomProgramsHaveNoCycles) {
  const char* seed_text = std::getenv("KAREZ_SEED");
  std::uint64_t seed = seed_text ? std::strtoull(seed_text, nullptr, 10) : 77;
  RecordProperty("seed", std::to_string(seed));
  int segments = 0;
  for (std::uint64_t round = 0; round < 300; ++round) {
    std::mt19937_64 random(seed + round);
    Program p;
    std::vector<ValueId> split = {p.input("x"), p.input("y")}, whole = {p.gathered(split[0])};
    auto random_value = [&](const std::vector<ValueId>& values) {
      return values[static_cast<std::size_t>(random() % values.size())];
    };
    for (int step = 0; step < 30; ++step) {
      switch (random() % 5) {
        case 0: whole.push_back(p.gathered(random_value(split))); break;
        case 1: split.push_back(p.sliced(random_value(whole))); break;
        case 2: whole.push_back(p.add(random_value(whole), random_value(whole))); break;
        default: split.push_back(p.add(random_value(split), random_value(split))); break;
      }
    }
    p.graph.outputs = {{"a", whole.back()}};
    if (random() % 2) {  // a variable with a reader and a late writer, far apart
      ValueId w = p.with_layout(testing::parameter(p.b, "w", vec), S(0));
      p.graph.variables[0].stored = Layout{S(0)};
      p.graph.variables[0].updated = random_value(split);
      whole.push_back(p.gathered(w));
      p.graph.outputs.push_back({"w", p.add(whole.back(), random_value(whole))});
    }
    Compilation c = p.segmented();
    check_segments(c);
    ASSERT_FALSE(HasFailure()) << "KAREZ_SEED=" << seed + round;
    segments += static_cast<int>(c.segmentation.segments.size());
  }
  EXPECT_GT(segments, 300 * 5);
}

}  // namespace
}  // namespace karez::passes
