// Tries variants in the order of their predicted time and takes the first one that fits.
#include "karez/passes/memory_limit/fit_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <set>

#include "karez/base/interrupt.h"
#include "karez/base/text.h"
#include "karez/passes/logical/gather_late.h"
#include "karez/passes/logical/microbatch.h"
#include "karez/passes/logical/recompute.h"
#include "karez/passes/lowering/emit.h"
#include "karez/passes/lowering/fuse/fused_values.h"
#include "karez/passes/lowering/memory.h"
#include "karez/passes/memory_limit/frontier.h"
#include "karez/passes/memory_limit/memory_estimate.h"
#include "karez/passes/memory_limit/memory_limit.h"
#include "karez/passes/memory_limit/plan_bytes.h"
#include "karez/passes/memory_limit/recompute_candidates.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/scheduling/critical_cycle.h"
#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/layout_assignment.h"
#include "karez/passes/sharding/layout_copy.h"

namespace karez::passes {
namespace {

// The assumed minimum of the ratio of a plan's bytes to the peak bytes of its graph in program order; the lowest ratio
// measured is 0.95.
constexpr double min_plan_share = 0.85;

// One variant of the program: its layouts, late gathering and recomputation.
struct MemoryVariant {
  ShardedGraph sharded;
  Graph boxed;
  double seconds = 0;  // of all calls and transfers
  bool late = false;   // true if parameters are gathered late
  std::vector<std::string> remat;
};

double seconds_of_all(const Graph& boxed, const CostTable& costs) {
  double total = 0;
  for (NodeId n : boxed.nodes.ids()) {
    const Node& node = boxed.node(n);
    const StreamKind stream = crosses_devices(node) ? StreamKind::comm : StreamKind::compute;
    const int mesh = mesh_of(boxed, n);
    total += node.acts * seconds_of(boxed, Segment{stream, {n}, mesh}, costs);
  }
  return total;
}

// The seconds of accesses to memory and of calls that fusion saves; `seconds_of_all` includes them.
double saved_seconds(const ShardedGraph& sharded, const CostTable& costs, const FusedValues& fused) {
  const Graph& graph = sharded.graph;
  return total(cost_breakdown(graph, sharded.operand_layouts, costs)) -
         total(cost_breakdown(graph, sharded.operand_layouts, costs, fused));
}

// A variant with its slots. It is planned only when it is tried.
struct Candidate {
  double seconds = 0;
  std::size_t variant = 0;
  std::optional<ById<ValueId, int>> slots;  // nullopt: the slots that slot_counts returns
  bool fits = false;
  // Ordered so that a priority queue returns the fastest candidate first.
  bool operator<(const Candidate& other) const {
    return std::pair(seconds, variant) > std::pair(other.seconds, other.variant);
  }
};

class MemoryFit {
 public:
  explicit MemoryFit(Compilation& c) : c_(c), bytes_(c.options.memory) {}

  void run() {
    if (original_plan_fits()) return;
    list_variants();
    std::priority_queue<Candidate> open;
    for (std::size_t variant = 0; variant < variants_.size(); ++variant)
      open.push({variants_[variant].seconds, variant, {}, false});
    while (!open.empty()) {
      check_interrupt();
      const Candidate candidate = open.top();
      open.pop();
      if (candidate.fits) return replace_compilation(candidate);
      if (auto fitting = fitted(candidate)) open.push(std::move(*fitting));
    }
    fail_with_smallest_plan();
  }

 private:
  bool is_off(std::string_view pass) const {
    return std::find(c_.options.off.begin(), c_.options.off.end(), pass) != c_.options.off.end();
  }
  void run_on(Compilation& compilation, std::initializer_list<std::string_view> passes) const {
    for (const std::string_view pass : passes)
      if (!is_off(pass)) run_passes(compilation, {pass});
  }

  // Returns the compilation for another rank, up to the results pass.
  Compilation on_rank(const Compilation& compilation, int rank) const {
    Compilation other = compilation;
    other.options.rank = rank;
    run_on(other, {"localise", "hoist", "fuse", "teams", "in_place", "emit", "results"});
    return other;
  }
  // Returns the other ranks whose plans are checked: those with the first device of a mesh. They have the largest
  // parts, and all ranks have the same slots.
  std::set<int> other_ranks() const {
    std::set<int> ranks;
    if (c_.options.world > 1)
      for (const Mesh& mesh : c_.graph.meshes) ranks.insert(mesh.devices[0].rank);
    ranks.erase(c_.options.rank);
    return ranks;
  }

  // True if the plan fits on all checked ranks. The compilation must have run up to the results pass.
  bool fits(const Compilation& compilation) {
    ++plans_tried_;
    if (!fits_on_rank(compilation)) return false;
    const std::set<int> ranks = other_ranks();
    return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return fits_on_rank(on_rank(compilation, rank)); });
  }
  bool fits_on_rank(Compilation compilation) const {
    if (min_device_bytes(compilation.plan) > bytes_) return false;
    run_on(compilation, {"memory"});
    return max_device_bytes(compilation.plan) <= bytes_;
  }

  bool original_plan_fits() {
    if (max_device_bytes(c_.plan) > bytes_) return false;
    const std::set<int> ranks = other_ranks();
    return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return fits_on_rank(on_rank(c_, rank)); });
  }

  Compilation compilation_of(Graph graph) const {
    Compilation compilation;
    compilation.graph = std::move(graph);
    compilation.ops = c_.ops, compilation.catalog = c_.catalog, compilation.evaluate = c_.evaluate,
    compilation.options = c_.options;
    compilation.hoist_bytes = 0;  // launches recompute constants, whose memory other values can then share
    return compilation;
  }

  // Returns the program before the shard pass.
  Graph before_shard(std::span<const std::string> remat) const {
    Graph graph = is_off("recompute") ? *c_.before_remat : recompute(*c_.before_remat, remat);
    return microbatch(graph, *c_.ops, c_.options.microbatches, c_.options.batch);
  }

  void add(ShardedGraph sharded, bool late, const std::vector<std::string>& remat, const FusedValues& fused) {
    MemoryVariant variant{std::move(sharded), {}, 0, late, remat};
    variant.boxed = box(variant.sharded.graph, *c_.ops, variant.sharded.operand_layouts, c_.options.costs);
    if (late) {
      Graph gathered = gather_late(variant.boxed);
      if (remat.size() == c_.options.remat.size() && gathered.nodes.size() == variant.boxed.nodes.size())
        return;  // no parameter is gathered
      variant.boxed = std::move(gathered);
    }
    variant.seconds =
        seconds_of_all(variant.boxed, c_.options.costs) - saved_seconds(variant.sharded, c_.options.costs, fused);
    variants_.push_back(std::move(variant));
  }

  void list_variants() {
    const auto& user_remat = c_.options.remat;
    const Graph graph = before_shard({});
    const FusedValues fused = fused_values(graph, *c_.catalog, c_.options);
    auto fastest = copy_layouts(graph, *c_.sharded);  // recomputation changes no layout
    require(fastest.has_value(), "fit_memory: a node of plan '", c_.graph.name,
            "' has no counterpart in the program without recomputation");
    const Graph& planned_graph = c_.sharded->graph;
    // Launches of the variants compute the values that the setup stores.
    if (std::any_of(planned_graph.nodes.begin(), planned_graph.nodes.end(),
                    [](const Node& node) { return node.setup; }))
      fastest = shard(graph, c_.options.costs, fused);
    fastest->fused = fused;
    unlimited_seconds_ =
        seconds_of_all(box(planned_graph, *c_.ops, c_.sharded->operand_layouts, c_.options.costs), c_.options.costs) -
        saved_seconds(*c_.sharded, c_.options.costs, fused_values(planned_graph, *c_.catalog, c_.options));
    const auto layouts = frontier(graph, *c_.ops, c_.options.costs, *fastest);
    has_all_layouts_ = layouts.exhaustive;
    add_all(layouts.candidates, user_remat, false);
    add_all(layouts.candidates, user_remat, true);
    if (is_off("recompute")) return;
    for (const auto& remat : recompute_candidates(*c_.before_remat, user_remat))
      add_all(layouts.candidates, remat, true);
  }
  void add_all(const std::vector<ShardedGraph>& candidates, const std::vector<std::string>& remat, bool late) {
    const Graph graph = before_shard(remat);
    const FusedValues fused = fused_values(graph, *c_.catalog, c_.options);
    for (const ShardedGraph& layouts : candidates) {
      check_interrupt();
      if (auto copied = copy_layouts(graph, layouts)) add(std::move(*copied), late, remat, fused);
    }
  }

  Compilation ordered(const MemoryVariant& variant) const {
    Compilation compilation = compilation_of(variant.boxed);
    // Late gathering saves memory, whereas bucket needs memory for copies of the values that it concatenates.
    if (!variant.late) run_on(compilation, {"bucket"});
    run_on(compilation, {"order"});
    return compilation;
  }
  void plan(Compilation& compilation) const {
    run_on(compilation, {"segment", "anchor", "slots", "layout", "localise", "hoist", "fuse", "teams", "in_place",
                         "emit", "results"});
  }
  Compilation planned(const MemoryVariant& variant) const {
    Compilation compilation = ordered(variant);
    plan(compilation);
    return compilation;
  }
  // True if a graph is so large that no plan is tried. With less memory this holds for more graphs, so fewer variants
  // remain.
  bool cannot_fit(const Graph& graph) const {
    return !has_all_layouts_ &&
           min_plan_share * static_cast<double>(peak_device_bytes(graph)) > static_cast<double>(bytes_);
  }
  void set_slots(Compilation& compilation, const ById<ValueId, int>& slots) const {
    compilation.slot_assignment =
        assign_slots(compilation.graph, compilation.segmentation, compilation.options.costs, slots);
    run_on(compilation, {"emit", "results"});
  }

  // Returns the candidate with the largest number of slots with which it fits; nullopt if it does not fit with any.
  std::optional<Candidate> fitted(const Candidate& candidate) {
    const MemoryVariant& variant = variants_[candidate.variant];
    tried_.push_back({peak_device_bytes(variant.boxed), candidate.variant});
    if (cannot_fit(variant.boxed)) return std::nullopt;
    Compilation compilation = ordered(variant);
    if (cannot_fit(compilation.graph)) return std::nullopt;
    plan(compilation);
    if (fits(compilation)) return Candidate{candidate.seconds, candidate.variant, {}, true};
    const ById<ValueId, int> one_slot(compilation.slot_assignment.slots.size(), 1);
    tried_.back().min_bytes = min_device_bytes(compilation.plan);
    if (compilation.slot_assignment.slots == one_slot) return std::nullopt;
    const double interval = compilation.slot_assignment.interval;
    Compilation with_one_slot = compilation;
    set_slots(with_one_slot, one_slot);
    if (!fits(with_one_slot)) {
      tried_.back().min_bytes = min_device_bytes(with_one_slot.plan);
      return std::nullopt;
    }
    const auto fewer =
        fewer_slots(compilation.graph, compilation.segmentation, compilation.options.costs, compilation.options.slots);
    auto fits_with = [&](std::size_t choice) {
      check_interrupt();
      set_slots(compilation, fewer[choice]);
      return fits(compilation);
    };
    if (fewer.empty() || !fits_with(fewer.size() - 1)) return std::nullopt;
    std::size_t first = 0, last = fewer.size() - 1;  // the plan fits with choice `last`, and not before `first`
    while (first < last) {
      const std::size_t middle = first + (last - first) / 2;
      if (fits_with(middle)) last = middle;
      else first = middle + 1;
    }
    const double lost_seconds =
        assign_slots(compilation.graph, compilation.segmentation, compilation.options.costs, fewer[last]).interval -
        interval;
    return Candidate{candidate.seconds + std::max(lost_seconds, 0.0), candidate.variant, fewer[last], true};
  }

  // Returns the candidate's plan that stores as many constants as fit, in steps of an eighth of all constants.
  Compilation holding_constants(const Candidate& chosen, double& interval) {
    constexpr int shares = 8;
    auto planned_with = [&](std::int64_t hoist_bytes) {
      Compilation compilation = ordered(variants_[chosen.variant]);
      compilation.hoist_bytes = hoist_bytes;
      plan(compilation);
      interval = compilation.slot_assignment.interval;
      if (chosen.slots) set_slots(compilation, *chosen.slots);
      return compilation;
    };
    Compilation without_constants = planned_with(0);
    const std::int64_t min_constants = constant_bytes(without_constants.plan);
    const Compilation with_all_constants = planned_with(INT64_MAX);
    all_constants_ = constant_bytes(with_all_constants.plan);
    for (int share = all_constants_ > min_constants ? shares - 1 : 0; share > 0; --share) {
      check_interrupt();
      Compilation with_share = planned_with(moved_bytes(with_all_constants.local) / shares * share);
      if (fits(with_share)) return with_share;
    }
    return without_constants;
  }

  void replace_compilation(const Candidate& chosen) {
    const MemoryVariant& variant = variants_[chosen.variant];
    const std::size_t plans = plans_tried_;
    double interval = 0;
    Compilation compilation = holding_constants(chosen, interval);
    plans_tried_ = plans;
    run_on(compilation, {"memory"});
    compilation.slot_assignment.memory_note =
        memory_note(chosen, compilation.plan, interval, compilation.slot_assignment.interval);
    compilation.passes = std::move(c_.passes);
    compilation.before_remat = c_.before_remat,
    compilation.sharded = std::make_shared<const ShardedGraph>(variant.sharded);
    compilation.cost = variant.sharded.cost, compilation.cost_bound = c_.cost_bound;
    compilation.optimal = c_.optimal && compilation.cost <= c_.cost * (1 + 1e-11);
    compilation.operand_layouts = variant.sharded.operand_layouts;
    const double gap = compilation.cost > 0 ? 100 * (compilation.cost - compilation.cost_bound) / compilation.cost : 0;
    compilation.shard_report =
        compilation.optimal
            ? c_.shard_report
            : cat("gap <= ", base::number(std::ceil(std::max(gap, 0.0) * 10) / 10), " % (layouts for memory)");
    c_ = std::move(compilation);
  }

  // Throws the error about the smallest plan. The packed size of a variant is known only when it is planned, so the few
  // variants with the smallest lower bounds are planned here.
  [[noreturn]] void fail_with_smallest_plan() {
    constexpr std::size_t max_packed = 8;
    std::stable_sort(tried_.begin(), tried_.end(),
                     [](const TriedVariant& a, const TriedVariant& b) { return a.min_bytes < b.min_bytes; });
    std::optional<Compilation> smallest;
    std::size_t packed = 0;
    for (std::size_t t = 0; t < std::min(tried_.size(), max_packed); ++t, ++packed) {
      if (smallest && tried_[t].min_bytes >= max_device_bytes(smallest->plan)) break;
      Compilation compilation = planned(variants_[tried_[t].variant]);
      set_slots(compilation, ById<ValueId, int>(compilation.slot_assignment.slots.size(), 1));
      std::vector<Compilation> rank_compilations;
      for (const int rank : other_ranks()) rank_compilations.push_back(on_rank(compilation, rank));
      rank_compilations.push_back(std::move(compilation));
      for (Compilation& rank_compilation : rank_compilations) run_on(rank_compilation, {"memory"});
      auto fullest = std::max_element(
          rank_compilations.begin(), rank_compilations.end(),
          [](const auto& a, const auto& b) { return max_device_bytes(a.plan) < max_device_bytes(b.plan); });
      if (!smallest || max_device_bytes(fullest->plan) < max_device_bytes(smallest->plan))
        smallest = std::move(*fullest);
    }
    fail_memory_limit(*smallest, bytes_, std::max(plans_tried_, packed));
  }

  std::string_view caution() const { return default_costs_warning(c_.options.costs); }

  // Describes the chosen variant. `interval` is the time between launches with the variant's preferred slots, and
  // `limited_interval` the time with the slots that fit.
  std::string memory_note(const Candidate& chosen, const Plan& plan, double interval, double limited_interval) const {
    const MemoryVariant& variant = variants_[chosen.variant];
    std::string out;
    const std::int64_t constants = constant_bytes(plan);
    if (chosen.variant > 0 || variants_.size() > 1 || constants < all_constants_) {
      out = cat("within ", bytes_text(bytes_), " per device: calls and transfers of ", microseconds(chosen.seconds),
                " a launch, predicted", caution(), "; without that limit ", microseconds(unlimited_seconds_), "; ",
                plans_tried_, " plans tried of ", variants_.size(), " variants\n");
      if (constants < all_constants_)
        out += cat("  constants that do not fit are computed in every launch: ", bytes_text(constants), " of ",
                   bytes_text(all_constants_), " are stored\n");
      if (variant.late) out += "  sharded parameters are gathered right before use\n";
      if (variant.remat.size() > c_.options.remat.size())
        out += cat("  recomputed: ", join(variant.remat, " ", [](const std::string& module) { return module; }), "\n");
    }
    if (chosen.slots && interval > 0)
      out += cat("slots given up to fit ", bytes_text(bytes_), " per device: by the planner's bound a launch every ",
                 microseconds(limited_interval), ", predicted", caution(), "; without that limit ",
                 microseconds(interval), "\n");
    if (!out.empty() && c_.options.data_bytes > 0)
      out += cat("  data sets: ", bytes_text(c_.options.data_bytes), " per device, which these ", bytes_text(bytes_),
                 " do not include\n");
    return out;
  }

  Compilation& c_;
  const std::int64_t bytes_;
  std::vector<MemoryVariant> variants_;
  bool has_all_layouts_ = false;
  std::int64_t all_constants_ = 0;  // bytes of constants if the setup of the chosen variant stores all of them
  double unlimited_seconds_ = 0;    // seconds of the calls and transfers of the plan that does not fit
  std::size_t plans_tried_ = 0;
  struct TriedVariant {
    std::int64_t min_bytes = 0;
    std::size_t variant = 0;
  };
  std::vector<TriedVariant> tried_;  // all variants examined; min_bytes is an estimate if no plan was made
};

}  // namespace

void fit_memory(Compilation& c) {
  if (c.options.memory > 0) MemoryFit(c).run();
}

}  // namespace karez::passes
