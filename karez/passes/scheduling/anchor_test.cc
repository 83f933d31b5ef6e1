// anchor: floating segments are fixed before later ones if that costs nothing; the bytes that this frees.
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

// A program on two devices, cut into segments in its traced order.
struct Program {
  Graph graph;
  Builder b{graph, table()};
  Streams stream;
  Segmentation segmentation;
  Program() { graph.meshes = {Mesh::parse("data=2")}; }
  ValueId laid(ValueId value, Sbp entry) {
    graph.value(value).layout = Layout{entry};
    return value;
  }
  ValueId input(const std::string& name) { return laid(build::input(b, name, vec), S(0)); }
  ValueId exp(ValueId x) { return laid(build::exp(b, x), graph.value(x).layout->at(0)); }
  ValueId add(ValueId x, ValueId y) { return laid(build::add(b, x, y), graph.value(x).layout->at(0)); }
  ValueId gathered(ValueId x) {
    return laid(b.one("box", {x}, Attrs().set("axis", 0).set("move", "all_gather").set("from", "S(0)").set("to", "B")),
                B());
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

// "4<2 7<5": node 4 after node 2, ...
std::string edges(const Graph& graph) {
  std::string out;
  for (NodeId n : graph.nodes.ids())
    for (NodeId before : graph.nodes[n].after) out += cat(out.empty() ? "" : " ", n.index, "<", before.index);
  return out;
}

TEST(Anchor, AWeightGradientIsFixedBeforeTheReaderOfTheTransfer) {
  Program p;
  ValueId dx = p.exp(p.input("dy"));                // n1
  ValueId moved = p.gathered(dx);                   // n2
  ValueId dw = p.exp(dx);                           // n3: only the user reads it
  ValueId next = p.exp(moved), last = p.exp(next);  // n4, n5
  p.graph.outputs = {{"dw", dw}, {"last", last}};
  EXPECT_EQ(edges(p.anchored()), "4<3");
}

TEST(Anchor, EachSegmentIsFixedOnceBeforeTheFirstWithAllItsWaits) {
  Program p;
  ValueId dx = p.exp(p.input("dy"));                                 // n1
  ValueId first = p.gathered(dx), dw = p.exp(dx);                    // n2, n3
  ValueId y = p.exp(first), second = p.gathered(dx);                 // n4, n5
  ValueId floats = p.exp(second), z = p.exp(p.gathered(p.exp(dx)));  // n6, n7, n8, n9
  p.graph.outputs = {{"dw", dw}, {"y", y}, {"floats", floats}, {"z", z}};
  Graph made = p.anchored();
  // n6 waits for the second transfer, for which no other node waits: it stays floating, without an edge.
  for (const Node& node : made.nodes) EXPECT_LE(node.after.size(), 2u) << edges(made);
  auto held = [&](ValueId v) {
    int times = 0;
    for (const Node& node : made.nodes)
      times += static_cast<int>(std::count(node.after.begin(), node.after.end(), p.maker(v)));
    return times;
  };
  EXPECT_EQ(held(floats), 0) << edges(made);
  EXPECT_EQ(held(dw), 1) << edges(made);
}

TEST(Anchor, NoEdgeIsAddedIfDataGivesTheOrderOrOnOneStreamAlone) {
  Program p;
  ValueId a = p.exp(p.input("x")), moved = p.gathered(a);
  ValueId b = p.exp(moved), all = p.add(b, p.gathered(a));
  p.graph.outputs = {{"all", all}};
  EXPECT_EQ(edges(p.anchored()), "");
  Program one;
  ValueId x = one.input("x");
  one.graph.outputs = {{"a", one.exp(x)}, {"b", one.exp(x)}};
  EXPECT_EQ(edges(one.anchored()), "");
}

TEST(Anchor, NoEdgeIsAddedAmongMicroBatches) {
  Program p;
  ValueId dx = p.exp(p.input("dy"));
  ValueId moved = p.gathered(dx), dw = p.exp(dx);
  p.graph.outputs = {{"dw", dw}, {"next", p.exp(moved)}};
  for (Node& node : p.graph.nodes) node.acts = 2;
  EXPECT_EQ(edges(p.anchored()), "");
}

// emit takes an update's edges for those from readers of its variable.
TEST(Anchor, NoEdgeIsAddedBeforeASegmentOfUpdates) {
  Program p;
  ValueId lr = p.laid(build::input(p.b, "lr", {DType::f32, {}}), B());
  ValueId w = p.laid(testing::parameter(p.b, "w", vec), B()), m = p.laid(testing::parameter(p.b, "m", vec), B());
  ValueId dx = p.exp(p.input("dy"));
  ValueId moved = p.gathered(dx), floats = p.exp(dx);
  auto next = build::sgd(p.b, w, m, moved, lr, {.momentum = 0.9});
  p.laid(next.w, B()), p.laid(next.m, B());
  p.graph.variables[0].updated = next.w, p.graph.variables[1].updated = next.m;
  p.graph.outputs = {{"floats", floats}};
  Graph made = p.anchored();
  for (const Node& node : made.nodes)
    if (node.op->role == Role::update) { EXPECT_TRUE(node.after.empty()) << edges(made); }
}

TEST(Anchor, NoSegmentWaitsForALaterOne) {  // x and y are one segment; a node between them waits for all micro-batches
  Program p;
  ValueId in = p.input("in"), often = p.exp(in);
  ValueId x = p.exp(in), joined = p.exp(in), y = p.exp(x);
  p.graph.outputs = {{"joined", joined}, {"y", y}};
  p.graph.node(p.maker(often)).acts = 2;
  p.graph.node(p.maker(joined)).after = {p.maker(often)};
  Graph made = p.anchored();
  ASSERT_EQ(p.segmentation.segment_of[p.maker(x)], p.segmentation.segment_of[p.maker(y)]);
  ASSERT_LT(p.segmentation.segment_of[p.maker(x)], p.segmentation.segment_of[p.maker(joined)]);
  EXPECT_NO_THROW(verify(made)) << edges(made);
}

TEST(Anchor, RandomProgramsTakeNoLongerAndHaveNoCycles) {
  const char* given = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 53;
  RecordProperty("seed", std::to_string(seed));
  int with_edges = 0;
  for (std::uint64_t round = 0; round < 300; ++round) {
    std::mt19937_64 random(seed + round);
    Program p;
    std::vector<ValueId> split = {p.input("x"), p.input("y")}, whole = {p.gathered(split[0])};
    auto any = [&](const std::vector<ValueId>& of) { return of[static_cast<std::size_t>(random() % of.size())]; };
    for (int step = 0; step < 30; ++step) {
      switch (random() % 4) {
        case 0: whole.push_back(p.gathered(any(split))); break;
        case 1: whole.push_back(p.add(any(whole), any(whole))); break;
        case 2: whole.push_back(p.exp(any(whole))); break;
        default: split.push_back(p.add(any(split), any(split))); break;
      }
    }
    p.graph.outputs = {{"a", split.back()}, {"b", whole.back()}};
    Graph made = p.anchored();
    verify(made);
    ById<ValueId, int> slots(made.values.size(), 1);
    const double before = simulate_launch(p.graph, p.segmentation, slots, CostTable()).seconds;
    EXPECT_EQ(simulate_launch(made, p.segmentation, slots, CostTable()).seconds, before)
        << "KAREZ_SEED=" << seed + round;
    with_edges += !edges(made).empty();
    ASSERT_FALSE(HasFailure()) << "KAREZ_SEED=" << seed + round;
  }
  EXPECT_GT(with_edges, 100);
}

TEST(Anchor, ThePassFreesTheOperandsOfFloatingSegments) {
  std::int64_t bytes[2] = {0, 0};
  for (int with = 0; with < 2; ++with) {
    Graph graph = testing::mlp_step(Mesh::parse("model=2"), {64, 128, 128, 128, 128, 16}, 64);
    LayoutRule rules[] = {{"fc1.weight", {"model"}}, {"fc2.weight", {"model"}}, {"fc3.weight", {"model"}}};
    apply_rules(graph, rules);
    Compilation c = testing::compilation(std::move(graph));
    if (with == 0) c.options.off = {"anchor"};
    compile(c);
    bytes[with] = arena_bytes(c.plan)[plan::DeviceId(0)];
  }
  EXPECT_LT(static_cast<double>(bytes[1]), 0.9 * static_cast<double>(bytes[0])) << bytes[0] << " -> " << bytes[1];
}

}  // namespace
}  // namespace karez::passes
