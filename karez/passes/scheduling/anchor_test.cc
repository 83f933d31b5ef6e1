// Tests of the anchor pass: floating segments must act before later ones if this costs no time, and the plan needs
// fewer bytes.
#include "karez/passes/scheduling/anchor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/segment.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/sharding/layout_rules.h"
#include "karez/passes/test_programs.h"
#include "karez/plan/live_bytes.h"

namespace karez::passes {
namespace {

using testing::table;

const TensorType vec{DType::f32, {8}};

// A program on two devices, divided into segments in its traced order.
struct Program {
  Graph graph;
  Builder b{graph, table()};
  Streams stream;
  Segmentation segmentation;
  Program() { graph.meshes = {Mesh::parse("data=2")}; }
  ValueId with_layout(ValueId value, Sbp entry) {
    graph.value(value).layout = Layout{entry};
    return value;
  }
  ValueId input(const std::string& name) { return with_layout(build::input(b, name, vec), S(0)); }
  ValueId exp(ValueId x) { return with_layout(build::exp(b, x), graph.value(x).layout->at(0)); }
  ValueId add(ValueId x, ValueId y) { return with_layout(build::add(b, x, y), graph.value(x).layout->at(0)); }
  ValueId gathered(ValueId x) {
    return with_layout(
        b.one("box", {x}, Attrs().set("axis", 0).set("move", "all_gather").set("from", "S(0)").set("to", "B")), B());
  }
  NodeId maker(ValueId v) const { return graph.value(v).producer; }
  Graph anchored() {
    stream.clear();
    for (const Node& node : graph.nodes)
      stream.push_back(node.op->role == Role::source ? StreamKind::host
                       : crosses_devices(node)       ? StreamKind::comm
                                                     : StreamKind::compute);
    segmentation = segment(graph, stream);
    return anchor(graph, segmentation);
  }
};

// "4<2 7<5" if node 4 comes after node 2 and node 7 after node 5.
std::string edges(const Graph& graph) {
  std::string out;
  for (NodeId n : graph.nodes.ids())
    for (NodeId predecessor : graph.nodes[n].after) out += cat(out.empty() ? "" : " ", n.index, "<", predecessor.index);
  return out;
}

TEST(Anchor, AWeightGradientMustActBeforeTheReaderOfTheTransfer) {
  Program p;
  ValueId dx = p.exp(p.input("dy"));                      // n1
  ValueId gathered_dx = p.gathered(dx);                   // n2
  ValueId dw = p.exp(dx);                                 // n3, which only the user reads
  ValueId next = p.exp(gathered_dx), last = p.exp(next);  // n4, n5
  p.graph.outputs = {{"dw", dw}, {"last", last}};
  EXPECT_EQ(edges(p.anchored()), "4<3");
}

TEST(Anchor, EachSegmentGetsOneEdgeToTheFirstSegmentWithAllItsWaits) {
  Program p;
  ValueId dx = p.exp(p.input("dy"));                                 // n1
  ValueId first = p.gathered(dx), dw = p.exp(dx);                    // n2, n3
  ValueId y = p.exp(first), second = p.gathered(dx);                 // n4, n5
  ValueId floats = p.exp(second), z = p.exp(p.gathered(p.exp(dx)));  // n6, n7, n8, n9
  p.graph.outputs = {{"dw", dw}, {"y", y}, {"floats", floats}, {"z", z}};
  Graph anchored_graph = p.anchored();
  // n6 waits for the second transfer, for which no other node waits. It therefore gets no edge and stays floating.
  for (const Node& node : anchored_graph.nodes) EXPECT_LE(node.after.size(), 2u) << edges(anchored_graph);
  auto edges_from = [&](ValueId v) {
    int count = 0;
    for (const Node& node : anchored_graph.nodes)
      count += static_cast<int>(std::count(node.after.begin(), node.after.end(), p.maker(v)));
    return count;
  };
  EXPECT_EQ(edges_from(floats), 0) << edges(anchored_graph);
  EXPECT_EQ(edges_from(dw), 1) << edges(anchored_graph);
}

TEST(Anchor, NoEdgeIsAddedIfDataDeterminesTheOrderOrIfThereIsOnlyOneStream) {
  Program p;
  ValueId a = p.exp(p.input("x")), gathered_dx = p.gathered(a);
  ValueId b = p.exp(gathered_dx), all = p.add(b, p.gathered(a));
  p.graph.outputs = {{"all", all}};
  EXPECT_EQ(edges(p.anchored()), "");
  Program single_stream;
  ValueId x = single_stream.input("x");
  single_stream.graph.outputs = {{"a", single_stream.exp(x)}, {"b", single_stream.exp(x)}};
  EXPECT_EQ(edges(single_stream.anchored()), "");
}

TEST(Anchor, NoEdgeIsAddedAmongMicroBatches) {
  Program p;
  ValueId dx = p.exp(p.input("dy"));
  ValueId gathered_dx = p.gathered(dx), dw = p.exp(dx);
  p.graph.outputs = {{"dw", dw}, {"next", p.exp(gathered_dx)}};
  for (Node& node : p.graph.nodes) node.acts = 2;
  EXPECT_EQ(edges(p.anchored()), "");
}

// The emit pass would treat such an edge to an update as an edge from a reader of its variable.
TEST(Anchor, NoEdgeIsAddedBeforeASegmentOfUpdates) {
  Program p;
  ValueId lr = p.with_layout(build::input(p.b, "lr", {DType::f32, {}}), B());
  ValueId w = p.with_layout(testing::parameter(p.b, "w", vec), B()),
          m = p.with_layout(testing::parameter(p.b, "m", vec), B());
  ValueId dx = p.exp(p.input("dy"));
  ValueId gathered_dx = p.gathered(dx), floats = p.exp(dx);
  auto next = build::sgd(p.b, w, m, gathered_dx, lr, {.momentum = 0.9});
  p.with_layout(next.w, B()), p.with_layout(next.m, B());
  p.graph.variables[0].updated = next.w, p.graph.variables[1].updated = next.m;
  p.graph.outputs = {{"floats", floats}};
  Graph anchored_graph = p.anchored();
  for (const Node& node : anchored_graph.nodes)
    if (node.op->role == Role::update) { EXPECT_TRUE(node.after.empty()) << edges(anchored_graph); }
}

// x and y are in one segment; `joined`, which is traced between them, waits for all micro-batches.
TEST(Anchor, NoSegmentWaitsForALaterSegment) {
  Program p;
  ValueId in = p.input("in"), repeated = p.exp(in);
  ValueId x = p.exp(in), joined = p.exp(in), y = p.exp(x);
  p.graph.outputs = {{"joined", joined}, {"y", y}};
  p.graph.node(p.maker(repeated)).acts = 2;
  p.graph.node(p.maker(joined)).after = {p.maker(repeated)};
  Graph anchored_graph = p.anchored();
  ASSERT_EQ(p.segmentation.segment_of[p.maker(x)], p.segmentation.segment_of[p.maker(y)]);
  ASSERT_LT(p.segmentation.segment_of[p.maker(x)], p.segmentation.segment_of[p.maker(joined)]);
  EXPECT_NO_THROW(verify(anchored_graph)) << edges(anchored_graph);
}

TEST(Anchor, AnchoredRandomProgramsAreNotSlowerAndHaveNoCycles) {
  const char* seed_text = std::getenv("KAREZ_SEED");
  std::uint64_t seed = seed_text ? std::strtoull(seed_text, nullptr, 10) : 53;
  RecordProperty("seed", std::to_string(seed));
  int with_edges = 0;
  for (std::uint64_t round = 0; round < 300; ++round) {
    std::mt19937_64 random(seed + round);
    Program p;
    std::vector<ValueId> split = {p.input("x"), p.input("y")}, whole = {p.gathered(split[0])};
    auto random_value = [&](const std::vector<ValueId>& values) {
      return values[static_cast<std::size_t>(random() % values.size())];
    };
    for (int step = 0; step < 30; ++step) {
      switch (random() % 4) {
        case 0: whole.push_back(p.gathered(random_value(split))); break;
        case 1: whole.push_back(p.add(random_value(whole), random_value(whole))); break;
        case 2: whole.push_back(p.exp(random_value(whole))); break;
        default: split.push_back(p.add(random_value(split), random_value(split))); break;
      }
    }
    p.graph.outputs = {{"a", split.back()}, {"b", whole.back()}};
    Graph anchored_graph = p.anchored();
    verify(anchored_graph);
    ById<ValueId, int> slots(anchored_graph.values.size(), 1);
    const double seconds_before = simulate_launch(p.graph, p.segmentation, slots, CostTable()).seconds;
    EXPECT_EQ(simulate_launch(anchored_graph, p.segmentation, slots, CostTable()).seconds, seconds_before)
        << "KAREZ_SEED=" << seed + round;
    with_edges += !edges(anchored_graph).empty();
    ASSERT_FALSE(HasFailure()) << "KAREZ_SEED=" << seed + round;
  }
  EXPECT_GT(with_edges, 100);
}

TEST(Anchor, AnchoringReducesTheSizeOfTheArena) {
  std::int64_t bytes[2] = {0, 0};
  for (int enabled = 0; enabled < 2; ++enabled) {
    Graph graph = testing::mlp_step(Mesh::parse("model=2"), {64, 128, 128, 128, 128, 16}, 64);
    LayoutRule rules[] = {{"fc1.weight", {"model"}}, {"fc2.weight", {"model"}}, {"fc3.weight", {"model"}}};
    apply_rules(graph, rules);
    Compilation c = testing::compilation(std::move(graph));
    if (enabled == 0) c.options.off = {"anchor"};
    compile(c);
    bytes[enabled] = arena_bytes(c.plan)[plan::DeviceId(0)];
  }
  EXPECT_LT(static_cast<double>(bytes[1]), 0.9 * static_cast<double>(bytes[0])) << bytes[0] << " -> " << bytes[1];
}

}  // namespace
}  // namespace karez::passes
