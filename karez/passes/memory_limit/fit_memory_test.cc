// The choice of fit_memory under a limit, compared with every layout of small programs, each planned and measured.
#include "karez/passes/memory_limit/fit_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/passes/logical/gather_late.h"
#include "karez/passes/logical/microbatch.h"
#include "karez/passes/logical/recompute.h"
#include "karez/passes/memory_limit/frontier.h"
#include "karez/passes/memory_limit/memory_estimate.h"
#include "karez/passes/memory_limit/recompute_candidates.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/critical_cycle.h"
#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/layout_copy.h"
#include "karez/passes/test_programs.h"
#include "karez/sbp/transition.h"

namespace karez::passes {
namespace {

using ::testing::HasSubstr;
using testing::table;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

// An op on a parameter and an input, and perhaps the parameter's next version.
Graph random_step(Random& random, const Mesh& mesh) {
  const std::int64_t sizes[] = {2, 3, 8, 64};
  const std::int64_t m = sizes[below(random, 4)], k = sizes[below(random, 4)], n = sizes[below(random, 4)];
  Graph graph;
  graph.meshes = {mesh};
  Builder b(graph, table());
  b.where = "random.cc:1";
  const ValueId x = build::input(b, "x", {DType::f32, {m, k}}), w = testing::parameter(b, "w", {DType::f32, {k, n}});
  ValueId y = build::matmul(b, x, w);
  switch (below(random, 3)) {
    case 0: y = build::relu(b, y); break;
    case 1: y = build::reduce_sum(b, y, {static_cast<std::int64_t>(below(random, 2))}); break;
    default: break;
  }
  if (below(random, 2)) graph.variables[0].updated = build::mul(b, w, w);
  graph.outputs.push_back({"y", y});
  return graph;
}

CostTable random_costs(Random& random) {
  const double alphas[] = {0, 1e-7, 1e-5}, betas[] = {1e-12, 1e-10, 1e-8};
  CostTable costs;
  costs.link = {alphas[below(random, 3)], betas[below(random, 3)]};
  costs.memory_bytes = 1e9;
  return costs;
}

Compilation to_compile(const Graph& graph, const CostTable& costs, std::int64_t memory) {
  Compilation c = testing::compilation(graph);
  c.options.costs = costs;
  c.options.slots = 1;
  c.options.memory = memory;
  c.options.off = {"canonicalise"};  // the planned program is the written one
  return c;
}

std::int64_t taken(const Plan& plan) {
  const auto bytes = planned_bytes(plan);
  return *std::max_element(bytes.begin(), bytes.end());
}

struct PlannedLayout {
  std::int64_t bytes = 0;
  double seconds = 0;
};

// All layouts of all nodes: seconds of the boxed program's calls and transfers, and bytes of its plan.
std::vector<PlannedLayout> all_layouts(const Graph& graph, const CostTable& costs) {
  const Mesh& mesh = graph.meshes[0];
  ById<NodeId, std::vector<std::vector<Sharding>>> ways;
  for (NodeId n : graph.nodes.ids()) ways.push_back(mesh_shardings({&graph, n}, mesh));
  std::vector<PlannedLayout> out;
  ById<NodeId, std::size_t> at(ways.size(), 0);
  while (true) {
    Compilation c = to_compile(graph, costs, 0);
    for (NodeId n : graph.nodes.ids()) {
      const Node& node = graph.node(n);
      auto layout = [&](bool out_side, std::size_t i) {
        Layout one;
        for (const Sharding& axis : ways[n][at[n]]) one.push_back(out_side ? axis.out[i] : axis.in[i]);
        return one;
      };
      c.wanted.emplace_back();
      for (std::size_t i = 0; i < node.inputs.size(); ++i) c.wanted.back().push_back(layout(false, i));
      for (std::size_t o = 0; o < node.outputs.size(); ++o) c.graph.value(node.outputs[o]).layout = layout(true, o);
    }
    for (Variable& variable : c.graph.variables) variable.stored = c.graph.value(variable.read).layout;
    run_passes(c, {"box"});
    double seconds = 0;
    for (const Node& node : c.graph.nodes) {
      const TensorType& type = c.graph.type(node.outputs[0]);
      auto part = [&](ValueId v) {
        return TensorType{c.graph.type(v).dtype,
                          shape_of(local_box(c.graph.type(v).shape, mesh, *c.graph.value(v).layout, 0))};
      };
      if (node.op->name == "box") {
        seconds += sbp::seconds(type, mesh,
                                {static_cast<int>(node.attrs.integer("axis")), sbp::move_from(node.attrs.text("move")),
                                 *c.graph.value(node.inputs[0]).layout, *c.graph.value(node.outputs[0]).layout},
                                costs);
      } else if (node.op->role == Role::compute) {
        std::vector<TensorType> ins;
        for (ValueId in : node.inputs) ins.push_back(part(in));
        const std::vector<TensorType> outs = {part(node.outputs[0])};
        const Cost cost = cost_of(*node.op, ins, outs, node.attrs);
        seconds += costs.seconds(cost);
      }
    }
    run_passes(c, {"bucket", "order", "segment", "anchor", "slots", "layout", "localise", "hoist", "fuse", "in_place",
                   "emit", "memory"});
    out.push_back({taken(c.plan), seconds});
    int n = 0;
    for (; at.has(NodeId(n)) && ++at[NodeId(n)] == ways[NodeId(n)].size(); ++n) at[NodeId(n)] = 0;
    if (!at.has(NodeId(n))) return out;
  }
}

// Seconds of the plan that fits; nullopt if none fits.
std::optional<double> fitted(const Graph& graph, const CostTable& costs, std::int64_t memory) {
  Compilation c = to_compile(graph, costs, memory);
  try {
    compile(c);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::device) << error.what();
    return std::nullopt;
  }
  EXPECT_LE(taken(c.plan), memory);
  return c.cost;
}

// A program on two axes, on which a node has the square of the choices: few nodes; one in eight programs has enough for
// a thousand layouts.
Graph random_on_two_axes(Random& random) {
  const std::int64_t sizes[] = {2, 3, 8, 64};
  const std::int64_t m = sizes[below(random, 4)], k = sizes[below(random, 4)];
  Graph graph;
  graph.meshes = {Mesh::parse("a=2,b=2")};
  Builder b(graph, table());
  b.where = "random.cc:1";
  ValueId y;
  if (below(random, 8) == 0) {
    const bool flat = below(random, 2) == 0;
    const Shape shape = flat ? Shape{m * k} : Shape{m, k};
    const ValueId x = build::input(b, "x", {DType::f32, shape}), w = testing::parameter(b, "w", {DType::f32, shape});
    y = build::mul(b, x, w);
    if (flat) graph.variables[0].updated = build::tanh(b, w);
  } else if (below(random, 2)) {
    const ValueId x = build::input(b, "x", {DType::f32, {m, k}});
    y = build::relu(b, build::reduce_sum(b, x, {static_cast<std::int64_t>(below(random, 2))}));
  } else {
    const ValueId w = testing::parameter(b, "w", {DType::f32, {m, k}});
    y = w;
    graph.variables[0].updated = build::tanh(b, w);
  }
  graph.outputs.push_back({"y", y});
  return graph;
}

struct LimitCounts {
  int refused = 0, slower = 0;  // limits at which nothing fits; at which less memory takes longer
};

LimitCounts expect_as_brute_force(const std::vector<std::pair<Graph, CostTable>>& programs) {
  LimitCounts seen;
  for (std::size_t seed = 1; seed <= programs.size(); ++seed) {
    const auto& [graph, costs] = programs[seed - 1];
    const std::vector<PlannedLayout> points = all_layouts(graph, costs);
    std::vector<std::int64_t> sizes;
    for (const PlannedLayout& p : points) sizes.push_back(p.bytes);
    std::sort(sizes.begin(), sizes.end());
    double before = 0;
    for (const std::int64_t memory :
         {sizes.back(), sizes[sizes.size() / 2], sizes[sizes.size() / 8], sizes[0], sizes[0] - 1}) {
      double best = INFINITY;
      for (const PlannedLayout& p : points)
        if (p.bytes <= memory) best = std::min(best, p.seconds);
      const auto got = fitted(graph, costs, memory);
      EXPECT_EQ(got.has_value(), std::isfinite(best)) << "seed " << seed << ", " << memory << " bytes\n"
                                                      << print(graph);
      seen.refused += !got;
      if (!got) continue;
      EXPECT_NEAR(*got, best, 1e-9 * best) << "seed " << seed << ", " << memory << " bytes\n" << print(graph);
      EXPECT_GE(*got, before * (1 - 1e-12));
      seen.slower += *got > before * (1 + 1e-9) && before > 0;
      before = *got;
    }
  }
  return seen;
}

std::uint64_t programs(std::uint64_t in_all, std::uint64_t sampled) {
  return std::getenv("KAREZ_ALL") != nullptr ? in_all : sampled;
}

TEST(FitMemory, ThePassRefusesSmallProgramsOnlyIfNoLayoutFitsAndTakesTheFastestThatFits) {
  std::vector<std::pair<Graph, CostTable>> made;
  for (std::uint64_t seed = 1; seed <= programs(200, 12); ++seed) {
    Random random(seed);
    Graph graph = random_step(random, Mesh::parse(below(random, 3) ? "a=2" : "a=3"));
    made.emplace_back(std::move(graph), random_costs(random));
  }
  const LimitCounts seen = expect_as_brute_force(made);
  EXPECT_GT(seen.refused, 0);
  EXPECT_GT(seen.slower, 2) << "less memory took time";
}

TEST(FitMemory, ThePassRefusesOnTwoAxesOnlyIfNoLayoutFitsAndTakesTheFastestThatFits) {
  std::vector<std::pair<Graph, CostTable>> made;
  for (std::uint64_t seed = 1; seed <= programs(200, 6); ++seed) {
    Random random(seed);
    Graph graph = random_on_two_axes(random);
    made.emplace_back(std::move(graph), random_costs(random));
  }
  const LimitCounts seen = expect_as_brute_force(made);
  EXPECT_GT(seen.refused, 0);
  EXPECT_GT(seen.slower, 0) << "less memory took time";
}

// One variant of a program with its slots.
struct PlannedVariant {
  std::int64_t bytes = 0;
  double seconds = 0;
  std::string plan;
  bool own_slots = false, late = false, remat = false;
};

// Every variant of the frontier, late and recomputed, each with all its slot counts, planned one by one. `wide` was
// compiled without an effective limit.
std::vector<PlannedVariant> all_variants(const Compilation& wide) {
  const CompileOptions& options = wide.options;
  auto before_shard = [&](const std::vector<std::string>& remat) {
    return microbatch(recompute(*wide.before_remat, remat), table(), options.microbatches, options.batch);
  };
  const Graph once = before_shard({});
  const auto laid = frontier(once, table(), options.costs, *copy_layouts(once, *wide.sharded)).candidates;
  std::vector<std::pair<std::vector<std::string>, bool>> kinds = {{options.remat, false}, {options.remat, true}};
  for (const auto& remat : recompute_candidates(*wide.before_remat, options.remat)) kinds.emplace_back(remat, true);
  std::vector<PlannedVariant> out;
  for (const auto& [remat, late] : kinds) {
    for (const ShardedGraph& one : laid) {
      const auto like = copy_layouts(before_shard(remat), one);
      Compilation c = testing::compilation(box(like->graph, table(), like->wanted, options.costs));
      c.options = options;
      if (late) c.graph = gather_late(c.graph);
      else run_passes(c, {"bucket"});
      const Graph boxed = late ? c.graph : box(like->graph, table(), like->wanted, options.costs);
      double seconds = 0;
      for (NodeId n : boxed.nodes.ids()) {
        const Node& node = boxed.node(n);
        const bool sent = crosses_devices(node);
        seconds +=
            node.acts * seconds_of(boxed, {sent ? StreamKind::comm : StreamKind::compute, {n}, 0}, options.costs);
      }
      run_passes(c,
                 {"order", "segment", "anchor", "slots", "layout", "localise", "fuse", "in_place", "emit", "memory"});
      out.push_back({taken(c.plan), seconds, print(c.plan), true, late, remat != options.remat});
      const double interval = c.slot_assignment.interval;
      for (const auto& slots : fewer_slots(c.graph, c.segmentation, options.costs, options.slots)) {
        c.slot_assignment = assign_slots(c.graph, c.segmentation, options.costs, slots);
        run_passes(c, {"emit", "memory"});
        out.push_back({taken(c.plan), seconds + std::max(c.slot_assignment.interval - interval, 0.0), print(c.plan),
                       false, late, remat != options.remat});
      }
    }
  }
  return out;
}

struct VariantCounts {
  int late = 0, remat = 0, fewer = 0;  // limits at which such a variant is the fastest
};

void expect_the_fastest_run(Compilation wide, VariantCounts& seen) {
  wide.options.off.emplace_back("hoist");  // the number of stored constants is not part of a variant
  const CompileOptions options = wide.options;
  const Graph graph = wide.graph;
  wide.options.memory = 1 << 30;
  compile(wide);
  const std::vector<PlannedVariant> runs = all_variants(wide);
  std::set<std::int64_t> limits;
  for (const PlannedVariant& run : runs)
    if (run.bytes < taken(wide.plan)) limits.insert(run.bytes);
  ASSERT_FALSE(limits.empty());
  const std::int64_t least = *limits.begin();
  std::vector<std::int64_t> requested(limits.begin(), limits.end());
  for (std::size_t i = 0; i < requested.size(); i += 1 + requested.size() / 12) {
    Compilation c = testing::compilation(graph);
    c.options = options;
    c.options.memory = requested[i];
    compile(c);
    const PlannedVariant* best = nullptr;
    for (const PlannedVariant& run : runs)
      if (run.bytes <= requested[i] && (best == nullptr || run.seconds < best->seconds * (1 - 1e-12))) best = &run;
    const std::string plan = print(c.plan);
    EXPECT_TRUE(std::any_of(
        runs.begin(), runs.end(),
        [&](const PlannedVariant& run) { return run.seconds <= best->seconds * (1 + 1e-12) && run.plan == plan; }))
        << requested[i] << " bytes: not the variant that takes " << best->seconds << "\n"
        << c.slot_assignment.memory_note;
    EXPECT_THAT(c.slot_assignment.memory_note, HasSubstr(cat("without that limit ", microseconds(runs[0].seconds))));
    seen.late += best->late && !best->remat, seen.remat += best->remat, seen.fewer += !best->own_slots;
    if (best->late) { EXPECT_THAT(c.slot_assignment.memory_note, HasSubstr("gathered right before use")); }
  }
  Compilation refused = testing::compilation(graph);
  refused.options = options;
  refused.options.memory = least - 1;
  try {
    compile(refused);
    ADD_FAILURE() << "no variant takes less than " << least;
  } catch (const Error& error) { EXPECT_THAT(error.what(), HasSubstr(cat("(", least, " bytes) on device"))); }
}

// Modules with values that gradients read, and a small parameter: recomputation frees most of the launch's bytes.
Graph chain_step(const Mesh& mesh) {
  Graph graph;
  graph.name = "chain";
  graph.meshes = {mesh};
  Builder b(graph, table());
  b.where = "chain.cc:1";
  const ValueId x = build::input(b, "x", {DType::f32, {32, 32}}),
                w = testing::parameter(b, "w", {DType::f32, {32, 32}});
  ValueId h = build::mul(b, x, w);
  for (int block = 0; block < 4; ++block) {
    b.path = cat("block", block);
    for (int i = 0; i < 2 + block; ++i) h = build::tanh(b, h);
  }
  b.path.clear();
  const ValueId loss = build::reduce_sum(b, h, {0, 1});
  graph.variables[0].updated = build::mul(b, w, gradient(b, loss, std::vector{w})[0]);
  graph.outputs.push_back({"loss", loss});
  return graph;
}

TEST(FitMemory, ThePassTakesTheFastestOfAllVariantsAndSlotsAndRefusesWithTheSmallest) {
  struct Program {
    Graph graph;
    LinkCost link;
    int microbatches;
    std::vector<std::string> remat;
  };
  const Mesh two = Mesh::parse("data=2"), one = Mesh::parse("data=1");
  const Program programs[] = {
      {testing::mlp_step(two, {16, 48, 32, 10}, 64), {1e-6, 1e-9}, 2, {}},
      {testing::mlp_step(two, {8, 8, 8, 8, 8}, 256), {1e-6, 1e-9}, 1, {}},
      {chain_step(one), {}, 1, {}},
      {chain_step(one), {}, 1, {"block1"}},
  };
  VariantCounts seen;
  for (const Program& program : programs) {
    SCOPED_TRACE(&program - programs);
    Compilation c = testing::compilation(program.graph);
    c.options.costs.link = program.link;
    c.options.microbatches = program.microbatches;
    c.options.remat = program.remat;
    expect_the_fastest_run(std::move(c), seen);
  }
  EXPECT_GT(seen.late, 0);
  EXPECT_GT(seen.remat, 0);
  EXPECT_GT(seen.fewer, 0);
}

TEST(FitMemory, WithoutALimitNoStateIsKeptForIt) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {20, 24, 10}, 12));
  compile(c);
  EXPECT_EQ(c.before_remat, nullptr);
  EXPECT_EQ(c.sharded, nullptr);
  const std::string plan = print(c.plan);
  Compilation wide = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {20, 24, 10}, 12));
  wide.options.memory = taken(c.plan);
  compile(wide);
  EXPECT_EQ(print(wide.plan), plan) << "a plan that fits is not changed";
}

TEST(Frontier, EachStepTakesLongerAndHasOtherLayouts) {
  const Graph graph = testing::mlp_step(Mesh::parse("data=4"), {64, 128, 64, 10}, 32);
  CostTable costs;
  costs.link = {1e-4, 1e-12};
  const ShardedGraph fastest = shard(graph, costs);
  const auto points = frontier(graph, table(), costs, fastest).candidates;
  ASSERT_GE(points.size(), 3u);
  EXPECT_LE(points.size(), 11u);
  EXPECT_EQ(points[0].cost, fastest.cost);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GE(points[i].cost, points[i - 1].cost);
    EXPECT_NE(print(points[i].graph), print(points[i - 1].graph));
  }
}

// The frontier of some programs: the sums of seconds and of peak bytes in program order, relative to the fastest
// layouts. A change of the search updates these numbers, with a reason if they get worse.
TEST(Frontier, TheFrontierReachesThePinnedSecondsAndBytes) {
  struct ExpectedFrontier {
    const char* mesh;
    std::vector<std::int64_t> sizes;
    std::int64_t batch;
    std::size_t ways;
    double seconds, bytes;
  };
  for (const ExpectedFrontier& one :
       {ExpectedFrontier{"data=4", {64, 128, 64, 10}, 32, 12, 17.262765, 12.192804},
        ExpectedFrontier{"data=2,model=2", {64, 128, 10}, 64, 13, 18.875002, 13.746423},
        ExpectedFrontier{"data=2,model=2", {16, 8, 32, 10}, 512, 11, 12.306616, 8.818790}}) {
    const Graph graph = testing::mlp_step(Mesh::parse(one.mesh), one.sizes, one.batch);
    CostTable costs;
    costs.link = {1e-6, 1e-9};
    const ShardedGraph fastest = shard(graph, costs);
    auto bytes_of = [&](const ShardedGraph& laid) {
      return static_cast<double>(peak_device_bytes(box(laid.graph, table(), laid.wanted, costs)));
    };
    double seconds = 0, bytes = 0;
    const auto ways = frontier(graph, table(), costs, fastest).candidates;
    for (const ShardedGraph& way : ways) seconds += way.cost / fastest.cost, bytes += bytes_of(way) / bytes_of(fastest);
    EXPECT_EQ(ways.size(), one.ways) << one.mesh;
    EXPECT_NEAR(seconds, one.seconds, 1e-6) << one.mesh;
    EXPECT_NEAR(bytes, one.bytes, 1e-6) << one.mesh;
  }
}

TEST(RecomputeCandidates, CandidatesAreModulesThatDifferInANumberAndFreeValuesThatGradientsRead) {
  const Graph graph = parse_graph(R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = exp(%0) : f32[2, 4] in "stem"
  %2 = tanh(%1) : f32[2, 4] in "block0.up"
  %3 = tanh(%2) : f32[2, 4] in "block0.up"
  %4 = sigmoid(%3) : f32[2, 4] in "block0.down"
  %5 = tanh(%4) : f32[2, 4] in "block1.up"
  %6 = tanh(%5) : f32[2, 4] in "block1.up"
  %7 = sigmoid(%6) : f32[2, 4] in "block1.down"
  %8 = mul(%7, %6) : f32[2, 4] in "block1.grad"
  %9 = mul(%8, %5) : f32[2, 4] in "block1.grad"
  %10 = mul(%9, %3) : f32[2, 4] in "block0.grad"
  %11 = mul(%10, %2) : f32[2, 4] in "block0.grad"
  output "y" %11
}
)",
                                  table());
  const std::vector<std::vector<std::string>> want = {
      {"block0"}};  // recomputing the last one would free nothing: its copies would be live as long as its values
  EXPECT_EQ(recompute_candidates(graph, {}), want);
  const std::vector<std::string> already = {"block1"};
  EXPECT_EQ(recompute_candidates(graph, already), (std::vector<std::vector<std::string>>{{"block1", "block0"}}));
}

std::string refusal(const std::vector<std::string>& off) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {64, 128, 10}, 32));
  c.options.memory = 1000;
  c.options.off = off;
  try {
    compile(c);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::device);
    return error.what();
  }
  return "not refused";
}

TEST(FitMemory, ARefusalListsTheLargestTensorsAndSuggestions) {
  EXPECT_TRUE(golden(
      refusal({}),
      R"(plan 'step' needs 72.73 KiB (74472 bytes) on device 0.0, but the limit is 1000 B (1000 bytes); the largest 10 of its 36 tensors, in the smallest of 6 plans tried:
  16.00 KiB  variable 'fc1.weight' f32[128@data, 64]
  16.00 KiB  f32[128@data, 64] of matmul at mlp.cc:2 (fc1.grad)
  16.00 KiB  variable 'm.fc1.weight' f32[128@data, 64]
  8.00 KiB  f32[32, 64] of input at mlp.cc:1, whole for all devices
  8.00 KiB  f32[32, 128@data] of matmul at mlp.cc:2 (fc1)
  8.00 KiB  f32[32, 128@data] of add at mlp.cc:2 (fc1)
  8.00 KiB  f32[32, 128@data] of relu at mlp.cc:2 (fc1)
  8.00 KiB  f32[32, 128@data] of matmul at mlp.cc:3 (fc2.grad)
  2.50 KiB  variable 'fc2.weight' f32[10, 128@data]
  2.50 KiB  f32[10, 128@data] of matmul at mlp.cc:3 (fc2.grad)
suggestions:
  more devices, to split the 37.54 KiB of variables
  a smaller batch, or microbatches, for the 35.19 KiB of the launch's values
  amp="bf16", for the f32 values among them)"));
  EXPECT_THAT(refusal({"recompute"}), HasSubstr("\n  recomputation, which is switched off\n"));
}

std::string refusal_of(Compilation c, std::int64_t memory = 64) {
  c.options.memory = memory;
  try {
    compile(c);
  } catch (const Error& error) { return error.what(); }
  return "not refused";
}

TEST(FitMemory, ARefusalSuggestsOnlyChangesThatHelpThisProgram) {
  Compilation micro = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {64, 128, 10}, 32));
  micro.options.microbatches = 2;
  const std::string halves = refusal_of(micro, 1000);
  EXPECT_THAT(halves, HasSubstr("a smaller batch, or more microbatches, for"));
  micro.options.amp = DType::bf16;
  EXPECT_THAT(refusal_of(micro, 1000), ::testing::Not(HasSubstr("amp=")));

  Graph fed;  // no variables, no f32 values, and not on the first device
  fed.meshes = {Mesh({{"a", 1}}, {{0, 1}})};
  Builder b(fed, table());
  fed.outputs.push_back({"y", build::exp(b, build::input(b, "x", {DType::f64, {100, 10}}))});
  const std::string without = refusal_of(testing::compilation(fed));
  EXPECT_THAT(without, HasSubstr(" on device 0.1, but the limit is 64 B (64 bytes)"));
  EXPECT_THAT(without, HasSubstr("\nsuggestions:\n  a smaller batch, or microbatches, for the "));
  EXPECT_THAT(without, ::testing::Not(HasSubstr("more devices")));
  EXPECT_THAT(without, ::testing::Not(HasSubstr("amp=")));

  Graph stored;  // no inputs
  stored.meshes = {Mesh::parse("a=1")};
  Builder c(stored, table());
  const ValueId w = testing::parameter(c, "w", {DType::f32, {100, 10}});
  stored.variables[0].updated = build::tanh(c, w);
  const std::string alone = refusal_of(testing::compilation(stored));
  EXPECT_THAT(alone, HasSubstr("more devices, to split the 3.91 KiB of variables"));
  EXPECT_THAT(alone, ::testing::Not(HasSubstr("a smaller batch")));
}

}  // namespace
}  // namespace karez::passes
