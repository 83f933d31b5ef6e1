// The pipeline: the only order of passes, with its reasons.
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
#include "karez/passes/lowering/hoist.h"
#include "karez/passes/lowering/in_place.h"
#include "karez/passes/lowering/layout.h"
#include "karez/passes/lowering/localise.h"
#include "karez/passes/lowering/memory.h"
#include "karez/passes/memory_limit/fit_memory.h"
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

constexpr long page = 4096;  // bytes; memory comes in no smaller pieces

void run_unroll(Compilation& c) {
  if (std::any_of(c.graph.nodes.begin(), c.graph.nodes.end(), [](const Node& node) { return !node.regions.empty(); }))
    c.graph = unroll(c.graph, *c.ops);
  c.graph = with_effective_layouts(
      std::move(c.graph));  // here, where bodies have come out: no pass and no search sees what comes to nothing
}
void run_canonicalise(Compilation& c) {
  c.graph = canonicalise(std::move(c.graph), {c.ops, c.evaluate, c.options.fold_bytes, c.options.reassociate}).graph;
}
void run_cast(Compilation& c) { c.graph = cast_halves(std::move(c.graph), *c.ops, *c.catalog, c.options.amp); }
void run_recompute(Compilation& c) { c.graph = recompute(std::move(c.graph), c.options.remat); }
void run_microbatch(Compilation& c) { c.graph = microbatch(c.graph, *c.ops, c.options.microbatches, c.options.batch); }
bool is_off(const Compilation& c, std::string_view pass) {
  return std::find(c.options.off.begin(), c.options.off.end(), pass) != c.options.off.end();
}

void run_shard(Compilation& c) {
  const Graph before = c.graph;
  Graph marked = is_off(c, "hoist") ? before : with_setup_nodes(before, *c.catalog);
  ShardedGraph made = c.options.remat.empty() ? shard(std::move(marked), c.options.costs)
                                              : shard_copies(std::move(marked), c.options.costs);
  split_setup_nodes(made, before);
  c.graph = std::move(made.graph), c.wanted = std::move(made.wanted);
  c.cost = made.cost, c.cost_bound = made.cost_bound, c.optimal = made.optimal;
  c.shard_report = std::move(made.report);
  if (c.options.memory == 0) return;
  ShardedGraph laid;
  laid.graph = c.graph, laid.wanted = c.wanted, laid.cost = c.cost;
  c.sharded = std::make_shared<const ShardedGraph>(std::move(laid));
}
void run_box(Compilation& c) { c.graph = box(c.graph, *c.ops, c.wanted, c.options.costs); }
void run_bucket(Compilation& c) {
  c.graph = bucket(std::move(c.graph), *c.ops, c.options.costs, c.options.slots).graph;
}
void run_order(Compilation& c) {
  OrderedGraph made = order(std::move(c.graph), *c.ops, c.options.costs, c.options.slots, c.options.check_nan);
  c.graph = std::move(made.graph), c.stream = std::move(made.stream);
}
void run_segment(Compilation& c) { c.segmentation = segment(c.graph, c.stream); }
void run_anchor(Compilation& c) { c.graph = anchor(std::move(c.graph), c.segmentation); }
void run_slots(Compilation& c) {
  c.slot_assignment = assign_slots(c.graph, c.segmentation, c.options.costs,
                                   slot_counts(c.graph, c.segmentation, c.options.costs, c.options.slots));
}
void run_layout(Compilation& c) { c.orders = layout(c.graph, *c.catalog, c.options.costs); }
void run_localise(Compilation& c) {
  c.orders.resize(c.graph.values.size());  // row-major all of them where layout is off
  c.local = localise(c.graph, c.stream, c.segmentation, c.orders, *c.catalog, c.options);
}
void run_hoist(Compilation& c) { c.local = hoist(std::move(c.local), c.graph, *c.catalog, c.hoist_bytes); }
void run_fuse(Compilation& c) {
  c.local = fuse(std::move(c.local), c.graph, c.segmentation, *c.catalog, c.options.team);
}
void run_in_place(Compilation& c) { c.local = in_place(std::move(c.local), c.graph, c.segmentation); }
void run_emit(Compilation& c) { c.plan = emit(c); }
// Less than a page is sought where there is a limit alone.
void run_memory(Compilation& c) { c.plan = memory(std::move(c.plan), {.tolerance = c.options.memory > 0 ? 0 : page}); }

constexpr Pass passes[] = {
    {"unroll", run_unroll, false},             // first: nobody else knows of regions
    {"canonicalise", run_canonicalise, true},  // before all that costs: what is gone need not be placed
    {"cast", run_cast, false},  // behind canonicalise: one value, one cast; before shard, which lays what is cast
    {"recompute", run_recompute, true},     // behind canonicalise, which would make one of a node and its copy
    {"microbatch", run_microbatch, false},  // before shard: types are from here on those of one micro-batch
    {"shard", run_shard, false},
    {"box", run_box, false},            // after shard: boxes stand where neighbours disagree
    {"bucket", run_bucket, true},       // after box: it groups what box inserted
    {"order", run_order, false},        // after them: transfers are nodes to be ordered like any other
    {"segment", run_segment, false},    // after order: actors are intervals of it
    {"anchor", run_anchor, true},       // after segment: segments are what floats
    {"slots", run_slots, false},        // after segment: registers are what crosses segments
    {"layout", run_layout, true},       // before localise: it says in which strides values are made
    {"localise", run_localise, false},  // from here on one rank and its devices
    {"hoist", run_hoist, true},  // after localise: calls say what they read; before fuse, which might make one of them
                                 // with a call of the launch
    {"fuse", run_fuse, true},    // after localise: kernels are known, actors are cut
    {"in_place", run_in_place, true},  // after fuse: it looks at the calls that are left
    {"emit", run_emit, false},
    {"memory", run_memory, true},       // after emit: who may share bytes follows from actors, registers and turns
    {"fit_memory", fit_memory, false},  // after memory: it makes the plan anew where that takes too much
};

// Passes that read the graph and hand on something else: it needs no verifying behind them.
constexpr std::string_view read_graph[] = {"segment", "slots",    "layout", "localise", "hoist",
                                           "fuse",    "in_place", "emit",   "memory"};

// What a pass made, as text: the graph, the orders in memory, at last the plan.
std::string text_of(const Compilation& c, std::string_view pass) {
  if (pass == "layout") return orders_text(c.graph, c.orders);
  return pass == "emit" || pass == "memory" || pass == "fit_memory" ? print(c.plan) : print(c.graph);
}

}  // namespace

std::span<const Pass> pipeline() { return passes; }

const Pass& pass_named(std::string_view name) {
  for (const Pass& pass : passes)
    if (pass.name == name) return pass;
  fail(ErrorKind::name, "no pass is called '", name, "'; ",
       suggest_names(name, passes, [](const Pass& p) { return p.name; }));
}

void run_passes(Compilation& c, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) pass_named(name).run(c);
}

void compile(Compilation& c) {
  for (const std::string& name : c.options.off)
    require(pass_named(name).may_be_off, "the pass '", name, "' cannot be switched off");
  verify(c.graph);
  check_remat(c.graph, c.options.remat);
  c.passes.clear();
  for (const Pass& pass : passes) {
    if (c.options.memory > 0 && pass.name == std::string_view("recompute"))
      c.before_remat = std::make_shared<const Graph>(c.graph);
    if (is_off(c, pass.name)) continue;
    check_interrupt();
    auto begin = std::chrono::steady_clock::now();
    pass.run(c);
    if (std::find(std::begin(read_graph), std::end(read_graph), pass.name) == std::end(read_graph)) verify(c.graph);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    c.passes.push_back({pass.name, seconds, c.options.keep_text ? text_of(c, pass.name) : std::string()});
  }
}

}  // namespace karez::passes
