// Tests that compare the choice of fit_memory with all variants of small programs, each of which is planned.
#include "karez/passes/memory_limit/fit_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "karez/base/text.h"
#include "karez/passes/logical/gather_late.h"
#include "karez/passes/logical/microbatch.h"
#include "karez/passes/logical/recompute.h"
#include "karez/passes/memory_limit/frontier.h"
#include "karez/passes/memory_limit/plan_bytes.h"
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

// Draws a program with an op on a parameter and an input, and perhaps an update of the parameter.
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

Compilation make_compilation(const Graph& graph, const CostTable& costs, std::int64_t memory) {
  Compilation c = testing::compilation(graph);
  c.options.costs = costs;
  c.options.slots = 1;
  c.options.memory = memory;
  c.options.off = {"canonicalise"};  // so that exactly the nodes of the graph are planned
  return c;
}

struct PlannedLayout {
  std::int64_t bytes = 0;
  double seconds = 0;
};

// Returns, for every combination of layouts, the seconds of the boxed program's calls and transfers and the bytes of
// its plan.
std::vector<PlannedLayout> all_layouts(const Graph& graph, const CostTable& costs) {
  const Mesh& mesh = graph.meshes[0];
  ById<NodeId, std::vector<std::vector<Sharding>>> node_shardings;
  for (NodeId n : graph.nodes.ids()) node_shardings.push_back(mesh_shardings({&graph, n}, mesh));
  std::vector<PlannedLayout> result;
  ById<NodeId, std::size_t> choice(node_shardings.size(), 0);
  while (true) {
    Compilation c = make_compilation(graph, costs, 0);
    for (NodeId n : graph.nodes.ids()) {
      const Node& node = graph.node(n);
      auto layout = [&](bool of_results, std::size_t i) {
        Layout layout;
        for (const Sharding& axis : node_shardings[n][choice[n]])
          layout.push_back(of_results ? axis.out[i] : axis.in[i]);
        return layout;
      };
      c.operand_layouts.emplace_back();
      for (std::size_t i = 0; i < node.inputs.size(); ++i) c.operand_layouts.back().push_back(layout(false, i));
      for (std::size_t o = 0; o < node.outputs.size(); ++o) c.graph.value(node.outputs[o]).layout = layout(true, o);
    }
    for (Variable& variable : c.graph.variables) variable.stored = c.graph.value(variable.read).layout;
    run_passes(c, {"box"});
    double seconds = 0;
    for (const Node& node : c.graph.nodes) {
      const TensorType& type = c.graph.type(node.outputs[0]);
      auto local_type = [&](ValueId v) {
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
        for (ValueId in : node.inputs) ins.push_back(local_type(in));
        const std::vector<TensorType> outs = {local_type(node.outputs[0])};
        const Cost cost = cost_of(*node.op, ins, outs, node.attrs);
        seconds += costs.seconds(cost);
      }
    }
    run_passes(c, {"bucket", "order", "segment", "anchor", "slots", "layout", "localise", "hoist", "fuse", "in_place",
                   "emit", "results", "memory"});
    result.push_back({max_device_bytes(c.plan), seconds});
    int n = 0;
    for (; choice.has(NodeId(n)) && ++choice[NodeId(n)] == node_shardings[NodeId(n)].size(); ++n) choice[NodeId(n)] = 0;
    if (!choice.has(NodeId(n))) return result;
  }
}

// Returns the seconds of the plan that fits; nullopt if no plan fits.
std::optional<double> fitted(const Graph& graph, const CostTable& costs, std::int64_t memory) {
  Compilation c = make_compilation(graph, costs, memory);
  try {
    compile(c);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::device) << error.what();
    return std::nullopt;
  }
  EXPECT_LE(max_device_bytes(c.plan), memory);
  return c.cost;
}

// Draws a program on two axes. It has few nodes, because two axes square the number of choices of a node. One in eight
// programs has about a thousand layouts.
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
  int refused = 0;  // number of limits at which nothing fits
  int slower = 0;   // number of limits at which less memory takes longer
};

LimitCounts expect_as_brute_force(const std::vector<std::pair<Graph, CostTable>>& programs) {
  LimitCounts counts;
  for (std::size_t seed = 1; seed <= programs.size(); ++seed) {
    const auto& [graph, costs] = programs[seed - 1];
    const std::vector<PlannedLayout> layouts = all_layouts(graph, costs);
    std::vector<std::int64_t> sizes;
    for (const PlannedLayout& p : layouts) sizes.push_back(p.bytes);
    std::sort(sizes.begin(), sizes.end());
    double previous_seconds = 0;
    for (const std::int64_t memory :
         {sizes.back(), sizes[sizes.size() / 2], sizes[sizes.size() / 8], sizes[0], sizes[0] - 1}) {
      double min_seconds = INFINITY;
      for (const PlannedLayout& p : layouts)
        if (p.bytes <= memory) min_seconds = std::min(min_seconds, p.seconds);
      const auto seconds = fitted(graph, costs, memory);
      EXPECT_EQ(seconds.has_value(), std::isfinite(min_seconds)) << "seed " << seed << ", " << memory << " bytes\n"
                                                                 << print(graph);
      counts.refused += !seconds;
      if (!seconds) continue;
      EXPECT_NEAR(*seconds, min_seconds, 1e-9 * min_seconds) << "seed " << seed << ", " << memory << " bytes\n"
                                                             << print(graph);
      EXPECT_GE(*seconds, previous_seconds * (1 - 1e-12));
      counts.slower += *seconds > previous_seconds * (1 + 1e-9) && previous_seconds > 0;
      previous_seconds = *seconds;
    }
  }
  return counts;
}

std::uint64_t program_count(std::uint64_t count_in_full_run, std::uint64_t sampled) {
  return std::getenv("KAREZ_ALL") != nullptr ? count_in_full_run : sampled;
}

TEST(FitMemory, SmallProgramsGetTheFastestLayoutsThatFitAndAreRejectedIfNoneFit) {
  std::vector<std::pair<Graph, CostTable>> programs_and_costs;
  for (std::uint64_t seed = 1; seed <= program_count(200, 12); ++seed) {
    Random random(seed);
    Graph graph = random_step(random, Mesh::parse(below(random, 3) ? "a=2" : "a=3"));
    programs_and_costs.emplace_back(std::move(graph), random_costs(random));
  }
  const LimitCounts counts = expect_as_brute_force(programs_and_costs);
  EXPECT_GT(counts.refused, 0);
  EXPECT_GT(counts.slower, 2) << "at some limits, less memory must cost time";
}

TEST(FitMemory, ProgramsOnTwoAxesGetTheFastestLayoutsThatFitAndAreRejectedIfNoneFit) {
  std::vector<std::pair<Graph, CostTable>> programs_and_costs;
  for (std::uint64_t seed = 1; seed <= program_count(200, 6); ++seed) {
    Random random(seed);
    Graph graph = random_on_two_axes(random);
    programs_and_costs.emplace_back(std::move(graph), random_costs(random));
  }
  const LimitCounts counts = expect_as_brute_force(programs_and_costs);
  EXPECT_GT(counts.refused, 0);
  EXPECT_GT(counts.slower, 0) << "at some limits, less memory must cost time";
}

// The plan of one variant of a program.
struct PlannedVariant {
  std::int64_t bytes = 0;
  double seconds = 0;
  std::string plan;
  bool has_preferred_slots = false, late = false, remat = false;
};

// Plans every variant: the layouts of the frontier, late gathering and recomputation, each with all slot counts.
// `unlimited` was compiled with a limit that is never reached.
std::vector<PlannedVariant> all_variants(const Compilation& unlimited) {
  const CompileOptions& options = unlimited.options;
  auto before_shard = [&](const std::vector<std::string>& remat) {
    return microbatch(recompute(*unlimited.before_remat, remat), table(), options.microbatches, options.batch);
  };
  const Graph graph = before_shard({});
  ShardedGraph fastest = *copy_layouts(graph, *unlimited.sharded);
  fastest.fused = fused_values(graph, testing::catalog(), options);
  const auto candidates = frontier(graph, table(), options.costs, fastest).candidates;
  std::vector<std::pair<std::vector<std::string>, bool>> kinds = {{options.remat, false}, {options.remat, true}};
  for (const auto& remat : recompute_candidates(*unlimited.before_remat, options.remat))
    kinds.emplace_back(remat, true);
  std::vector<PlannedVariant> variants;
  for (const auto& [remat, late] : kinds) {
    const FusedValues fused = fused_values(before_shard(remat), testing::catalog(), options);
    for (const ShardedGraph& candidate : candidates) {
      const auto copied = copy_layouts(before_shard(remat), candidate);
      Compilation c = testing::compilation(box(copied->graph, table(), copied->operand_layouts, options.costs));
      c.options = options;
      if (late) c.graph = gather_late(c.graph);
      else run_passes(c, {"bucket"});
      const Graph boxed = late ? c.graph : box(copied->graph, table(), copied->operand_layouts, options.costs);
      double seconds = total(cost_breakdown(copied->graph, copied->operand_layouts, options.costs, fused)) -
                       total(cost_breakdown(copied->graph, copied->operand_layouts, options.costs));
      for (NodeId n : boxed.nodes.ids()) {
        const Node& node = boxed.node(n);
        const bool is_transfer = crosses_devices(node);
        seconds += node.acts *
                   seconds_of(boxed, {is_transfer ? StreamKind::comm : StreamKind::compute, {n}, 0}, options.costs);
      }
      run_passes(c, {"order", "segment", "anchor", "slots", "layout", "localise", "fuse", "in_place", "emit", "results",
                     "memory"});
      variants.push_back({max_device_bytes(c.plan), seconds, print(c.plan), true, late, remat != options.remat});
      const double interval = c.slot_assignment.interval;
      for (const auto& slots : fewer_slots(c.graph, c.segmentation, options.costs, options.slots)) {
        c.slot_assignment = assign_slots(c.graph, c.segmentation, options.costs, slots);
        run_passes(c, {"emit", "results", "memory"});
        variants.push_back({max_device_bytes(c.plan), seconds + std::max(c.slot_assignment.interval - interval, 0.0),
                            print(c.plan), false, late, remat != options.remat});
      }
    }
  }
  return variants;
}

struct VariantCounts {
  int late = 0, remat = 0, fewer = 0;  // number of limits at which such a variant is the fastest
};

void expect_fastest_variants(Compilation unlimited, VariantCounts& counts) {
  unlimited.options.off.emplace_back("hoist");  // the number of stored constants is not part of a variant
  const CompileOptions options = unlimited.options;
  const Graph graph = unlimited.graph;
  unlimited.options.memory = 1 << 30;
  compile(unlimited);
  const std::vector<PlannedVariant> variants = all_variants(unlimited);
  std::set<std::int64_t> limits;
  for (const PlannedVariant& variant : variants)
    if (variant.bytes < max_device_bytes(unlimited.plan)) limits.insert(variant.bytes);
  ASSERT_FALSE(limits.empty());
  const std::int64_t min_bytes = *limits.begin();
  std::vector<std::int64_t> tested_limits(limits.begin(), limits.end());
  for (std::size_t i = 0; i < tested_limits.size(); i += 1 + tested_limits.size() / 12) {
    Compilation c = testing::compilation(graph);
    c.options = options;
    c.options.memory = tested_limits[i];
    compile(c);
    const PlannedVariant* fastest = nullptr;
    for (const PlannedVariant& variant : variants)
      if (variant.bytes <= tested_limits[i] && (fastest == nullptr || variant.seconds < fastest->seconds * (1 - 1e-12)))
        fastest = &variant;
    const std::string plan = print(c.plan);
    EXPECT_TRUE(std::any_of(variants.begin(), variants.end(),
                            [&](const PlannedVariant& variant) {
                              return variant.seconds <= fastest->seconds * (1 + 1e-12) && variant.plan == plan;
                            }))
        << tested_limits[i] << " bytes: expected a variant that takes " << fastest->seconds << " s\n"
        << c.slot_assignment.memory_note;
    EXPECT_THAT(c.slot_assignment.memory_note,
                HasSubstr(cat("without that limit ", microseconds(variants[0].seconds))));
    counts.late += fastest->late && !fastest->remat, counts.remat += fastest->remat,
        counts.fewer += !fastest->has_preferred_slots;
    if (fastest->late) { EXPECT_THAT(c.slot_assignment.memory_note, HasSubstr("gathered right before use")); }
  }
  Compilation rejected = testing::compilation(graph);
  rejected.options = options;
  rejected.options.memory = min_bytes - 1;
  try {
    compile(rejected);
    ADD_FAILURE() << "expected an error, since no variant takes less than " << min_bytes << " bytes";
  } catch (const Error& error) { EXPECT_THAT(error.what(), HasSubstr(cat("(", min_bytes, " bytes) on device"))); }
}

// Builds a program of modules whose values gradients read. Its parameter is small, so recomputation frees most of the
// bytes of a launch.
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

TEST(FitMemory, TheFastestVariantThatFitsIsTakenAndTheSmallestIsReportedIfNoneFits) {
  struct Program {
    Graph graph;
    LinkCost link;
    int microbatches;
    std::vector<std::string> remat;
  };
  const Mesh two_devices = Mesh::parse("data=2"), one_device = Mesh::parse("data=1");
  const Program programs[] = {
      {testing::mlp_step(two_devices, {16, 48, 32, 10}, 64), {1e-6, 1e-9}, 2, {}},
      {testing::mlp_step(two_devices, {8, 8, 8, 8, 8}, 256), {1e-6, 1e-9}, 1, {}},
      {chain_step(one_device), {}, 1, {}},
      {chain_step(one_device), {}, 1, {"block1"}},
  };
  VariantCounts counts;
  for (const Program& program : programs) {
    SCOPED_TRACE(&program - programs);
    Compilation c = testing::compilation(program.graph);
    c.options.costs.link = program.link;
    c.options.microbatches = program.microbatches;
    c.options.remat = program.remat;
    expect_fastest_variants(std::move(c), counts);
  }
  EXPECT_GT(counts.late, 0);
  EXPECT_GT(counts.remat, 0);
  EXPECT_GT(counts.fewer, 0);
}

TEST(FitMemory, WithoutALimitNoGraphsAreStoredForTheSearch) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {20, 24, 10}, 12));
  compile(c);
  EXPECT_EQ(c.before_remat, nullptr);
  EXPECT_EQ(c.sharded, nullptr);
  const std::string plan = print(c.plan);
  Compilation limited = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {20, 24, 10}, 12));
  limited.options.memory = max_device_bytes(c.plan);
  compile(limited);
  EXPECT_EQ(print(limited.plan), plan) << "a plan that fits is not changed";
}

}  // namespace
}  // namespace karez::passes
