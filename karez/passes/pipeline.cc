// The pipeline: the fixed order of the passes, with the reason for each position.
#include "karez/passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "karez/base/interrupt.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/logical/cast.h"
#include "karez/passes/logical/microbatch.h"
#include "karez/passes/logical/recompute.h"
#include "karez/passes/logical/unroll.h"
#include "karez/passes/lowering/emit.h"
#include "karez/passes/lowering/fuse/fuse.h"
#include "karez/passes/lowering/fuse/fused_values.h"
#include "karez/passes/lowering/hoist.h"
#include "karez/passes/lowering/in_place.h"
#include "karez/passes/lowering/layout.h"
#include "karez/passes/lowering/localise.h"
#include "karez/passes/lowering/memory.h"
#include "karez/passes/lowering/results.h"
#include "karez/passes/lowering/teams.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/anchor.h"
#include "karez/passes/scheduling/order.h"
#include "karez/passes/scheduling/segment.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/bucket.h"
#include "karez/passes/sharding/setup_nodes.h"
#include "karez/passes/sharding/shard_copies.h"

namespace karez::passes {
namespace {

constexpr long page = 4096;  // bytes; memory is committed in pages

bool has_regions(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return !node.regions.empty(); });
}
bool needs_unroll(const Compilation& c) {
  const auto is_fixed = [](const auto& one) { return one.layout.has_value(); };
  const Graph& g = c.graph;
  return has_regions(g) || std::any_of(g.values.begin(), g.values.end(), is_fixed) ||
         std::any_of(g.outputs.begin(), g.outputs.end(), is_fixed) ||
         std::any_of(g.variables.begin(), g.variables.end(), [](const Variable& v) { return v.stored.has_value(); });
}
void run_unroll(Compilation& c) {
  if (has_regions(c.graph)) c.graph = unroll(c.graph, *c.ops);
  // This runs after regions are unrolled, so that no later pass sees an axis that splits nothing.
  c.graph = with_effective_layouts(std::move(c.graph));
}
void run_canonicalise(Compilation& c) {
  c.graph = canonicalise(std::move(c.graph), {c.ops, c.evaluate, c.options.fold_bytes, c.options.reassociate}).graph;
}
void run_cast(Compilation& c) {
  c.graph = cast_halves(std::move(c.graph), *c.ops, *c.catalog, c.options.amp);
  if (c.options.memory > 0) c.before_remat = std::make_shared<const Graph>(c.graph);
}
void run_recompute(Compilation& c) { c.graph = recompute(std::move(c.graph), c.options.remat); }
void run_microbatch(Compilation& c) { c.graph = microbatch(c.graph, *c.ops, c.options.microbatches, c.options.batch); }
bool is_off(const Compilation& c, std::string_view pass) {
  return std::find(c.options.off.begin(), c.options.off.end(), pass) != c.options.off.end();
}

// On single devices, `setup` marks are all that `shard` needs, and the layouts are known.
void run_shard_on_single_devices(Compilation& c) {
  Graph graph = is_off(c, "hoist") ? std::move(c.graph) : with_setup_nodes(std::move(c.graph), *c.catalog);
  const FusedValues fused = c.options.predict ? fused_values(graph, *c.catalog, c.options) : FusedValues();
  ShardedGraph sharded = shard(std::move(graph), c.options.costs, fused);
  c.graph = std::move(sharded.graph), c.operand_layouts = std::move(sharded.operand_layouts);
  c.optimal = true, c.shard_report = std::move(sharded.report);
  if (c.options.predict) c.cost = sharded.cost, c.cost_bound = sharded.cost_bound;
}
void run_shard(Compilation& c) {
  if (has_only_single_devices(c.graph) && c.options.remat.empty() && c.options.memory == 0)
    return run_shard_on_single_devices(c);
  const Graph without_marks = c.graph;
  Graph with_marks = is_off(c, "hoist") ? without_marks : with_setup_nodes(without_marks, *c.catalog);
  const auto fuses = [&](const Graph& graph) { return fused_values(graph, *c.catalog, c.options); };
  const FusedValues fused = c.options.remat.empty() ? fuses(with_marks) : FusedValues();
  ShardedGraph sharded = c.options.remat.empty() ? shard(std::move(with_marks), c.options.costs, fused)
                                                 : shard_copies(std::move(with_marks), c.options.costs, fuses);
  split_setup_nodes(sharded, without_marks);
  c.graph = std::move(sharded.graph), c.operand_layouts = std::move(sharded.operand_layouts);
  c.cost = sharded.cost, c.cost_bound = sharded.cost_bound, c.optimal = sharded.optimal;
  c.shard_report = std::move(sharded.report);
  if (c.options.memory == 0) return;
  ShardedGraph before_box;
  before_box.graph = c.graph, before_box.operand_layouts = c.operand_layouts, before_box.cost = c.cost;
  c.sharded = std::make_shared<const ShardedGraph>(std::move(before_box));
}
void run_box(Compilation& c) { c.graph = box(c.graph, *c.ops, c.operand_layouts, c.options.costs); }
void run_bucket(Compilation& c) {
  c.graph = bucket(std::move(c.graph), *c.ops, c.options.costs, c.options.slots).graph;
}
void run_order(Compilation& c) {
  OrderedGraph ordered = order(std::move(c.graph), *c.ops, c.options.costs, c.options.slots, c.options.check_nan);
  c.graph = std::move(ordered.graph), c.stream = std::move(ordered.stream);
}
void run_segment(Compilation& c) { c.segmentation = segment(c.graph, c.stream); }
void run_anchor(Compilation& c) { c.graph = anchor(std::move(c.graph), c.segmentation); }
void run_slots(Compilation& c) {
  c.slot_assignment = assign_slots(c.graph, c.segmentation, c.options.costs,
                                   slot_counts(c.graph, c.segmentation, c.options.costs, c.options.slots));
}
void run_layout(Compilation& c) { c.orders = layout(c.graph, *c.catalog, c.options.costs); }
void run_localise(Compilation& c) {
  c.orders.resize(c.graph.values.size());  // if the layout pass is off, all values are row-major
  c.local = localise(c.graph, c.stream, c.segmentation, c.orders, *c.catalog, c.options);
}
void run_hoist(Compilation& c) { c.local = hoist(std::move(c.local), c.graph, *c.catalog, c.hoist_bytes); }
void run_fuse(Compilation& c) {
  c.local = fuse(std::move(c.local), c.graph, c.segmentation, *c.catalog, c.options.team,
                 {.chains = !c.options.check_nan, .groups = !c.options.check_nan && c.options.memory == 0});
}
void run_teams(Compilation& c) { c.local = choose_teams(std::move(c.local), *c.ops, *c.catalog, c.options); }
void run_in_place(Compilation& c) { c.local = in_place(std::move(c.local), c.graph, c.segmentation); }
void run_emit(Compilation& c) { c.plan = emit(c); }
void run_results(Compilation& c) { c.plan = results(std::move(c.plan)); }
// Packs as tightly as possible if memory is limited, otherwise to within one page of that.
void run_memory(Compilation& c) { c.plan = memory(std::move(c.plan), {.tolerance = c.options.memory > 0 ? 0 : page}); }

using enum PassResult;
constexpr Pass passes[] = {
    {"unroll", run_unroll, graph, false, needs_unroll},  // first: no other pass supports regions
    {"canonicalise", run_canonicalise, graph, true},     // before the expensive passes: removed nodes cost them no time
    // After canonicalise, so that each value is cast once; before shard, which also chooses the layouts of casts.
    {"cast", run_cast, graph, false,
     [](const Compilation& c) { return needs_casts(c.graph, c.options.amp) || c.options.memory > 0; }},
    // After canonicalise, which would merge a node and its copy.
    {"recompute", run_recompute, graph, true, [](const Compilation& c) { return !c.options.remat.empty(); }},
    // Before shard: from here on types are those of one micro-batch.
    {"microbatch", run_microbatch, graph, false, [](const Compilation& c) { return c.options.microbatches != 1; }},
    {"shard", run_shard, graph},
    // After shard: inserts boxes between nodes of different layouts.
    {"box", run_box, graph, false, [](const Compilation& c) { return !has_only_single_devices(c.graph); }},
    // After box: groups the boxes that box inserted.
    {"bucket", run_bucket, graph, true, [](const Compilation& c) { return !has_only_single_devices(c.graph); }},
    {"order", run_order, graph},                // after bucket: transfers are nodes to be ordered like all others
    {"segment", run_segment, segments},         // after order: the nodes of a segment are in that order
    {"anchor", run_anchor, graph, true},        // after segment: anchor fixes when segments run
    {"slots", run_slots, segments},             // after segment: registers carry the values between segments
    {"layout", run_layout, orders, true},       // before localise: layout decides in which strides values are produced
    {"localise", run_localise, local_program},  // from here on the program is that of one rank and its devices
    // After localise: operands of calls are known; before fuse, which might merge a call to be hoisted with a call of
    // the launch.
    {"hoist", run_hoist, local_program, true},
    {"fuse", run_fuse, local_program, true},          // after localise: kernels and the calls of each actor are known
    {"teams", run_teams, local_program, true},        // after fuse: the work of merged calls is known
    {"in_place", run_in_place, local_program, true},  // after fuse: in_place examines the remaining calls
    {"emit", run_emit, plan},
    {"results", run_results, plan, true},  // after emit: fetches are actors; before memory: results need no bytes
    {"memory", run_memory, plan, true},  // after emit: actors, registers and turns determine which blocks share memory
};

// Formats the result of a pass as text.
std::string text_of(const Compilation& c, PassResult result) {
  if (result == orders) return orders_text(c.graph, c.orders);
  return result == plan ? print(c.plan) : print(c.graph);
}

}  // namespace

std::span<const Pass> pipeline() { return passes; }

const Pass& pass_named(std::string_view name) {
  for (const Pass& pass : passes)
    if (pass.name == name) return pass;
  fail(ErrorKind::name, "unknown pass '", name, "'; ",
       suggest_names(name, passes, [](const Pass& p) { return p.name; }));
}

void run_passes(Compilation& c, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) pass_named(name).run(c);
}

void run_pipeline(Compilation& c) {
  run_pipeline_to(c, {});
  verify(c.plan);
}

void run_pipeline_to(Compilation& c, std::string_view last) {
  for (const std::string& name : c.options.off)
    require(pass_named(name).can_be_off, "the pass '", name, "' cannot be switched off");
  verify(c.graph);
  check_remat(c.graph, c.options.remat);
  c.passes.clear();
  for (const Pass& pass : passes) {
    if (is_off(c, pass.name)) continue;
    check_interrupt();
    auto begin = std::chrono::steady_clock::now();
    if (pass.is_needed == nullptr || pass.is_needed(c)) {
      pass.run(c);
      if (pass.result == graph) verify(c.graph);
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    c.passes.push_back({pass.name, seconds, c.options.keep_text ? text_of(c, pass.result) : std::string()});
    if (pass.name == last) break;
  }
}

}  // namespace karez::passes
