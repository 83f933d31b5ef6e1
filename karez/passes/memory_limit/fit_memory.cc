// Tries variants in the order of their predicted time and takes the first that fits.
#include "karez/passes/memory_limit/fit_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "karez/base/interrupt.h"
#include "karez/base/text.h"
#include "karez/passes/logical/gather_late.h"
#include "karez/passes/logical/microbatch.h"
#include "karez/passes/logical/recompute.h"
#include "karez/passes/lowering/emit.h"
#include "karez/passes/lowering/memory.h"
#include "karez/passes/memory_limit/frontier.h"
#include "karez/passes/memory_limit/memory_estimate.h"
#include "karez/passes/memory_limit/memory_limit.h"
#include "karez/passes/memory_limit/recompute_candidates.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/scheduling/critical_cycle.h"
#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/layout_copy.h"
#include "karez/plan/live_bytes.h"

namespace karez::passes {
namespace {

// Assumed least ratio of a plan's bytes to the peak bytes of its graph in program order; the least seen is 0.95.
constexpr double min_plan_share = 0.85;

// One variant of the program: its layouts, late gathering and recomputation.
struct MemoryVariant {
  ShardedGraph laid;
  Graph boxed;
  double seconds = 0;  // of its calls and transfers
  bool late = false;   // parameters gathered late
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

// A variant and its slots. It is planned when it is tried.
struct Candidate {
  double seconds = 0;
  std::size_t variant = 0;
  std::optional<ById<ValueId, int>> slots;  // none: those of slot_counts
  bool fits = false;
  bool operator<(const Candidate& other) const {
    return std::pair(seconds, variant) > std::pair(other.seconds, other.variant);
  }  // the fastest comes first
};

class MemoryFit {
 public:
  explicit MemoryFit(Compilation& c) : c_(c), bytes_(c.options.memory) {}

  void run() {
    if (as_planned_fits()) return;
    list_variants();
    std::priority_queue<Candidate> open;
    for (std::size_t w = 0; w < variants_.size(); ++w) open.push({variants_[w].seconds, w, {}, false});
    while (!open.empty()) {
      check_interrupt();
      const Candidate now = open.top();
      open.pop();
      if (now.fits) return take(now);
      if (auto found = fitted(now)) open.push(std::move(*found));
    }
    refuse();
  }

 private:
  bool is_off(std::string_view pass) const {
    return std::find(c_.options.off.begin(), c_.options.off.end(), pass) != c_.options.off.end();
  }
  void run_on(Compilation& there, std::initializer_list<std::string_view> passes) const {
    for (const std::string_view pass : passes)
      if (!is_off(pass)) run_passes(there, {pass});
  }

  // A lower bound for the fullest device: the live bytes of a launch that runs one act after the other, and the blocks
  // that share no bytes.
  static std::int64_t min_device_bytes(const Plan& plan) {
    const auto planned = planned_bytes(plan), arena = plan::arena_bytes(plan), live = plan::live_bytes(plan);
    std::int64_t most = 0;
    for (DeviceId d : planned.ids()) most = std::max(most, planned[d] - arena[d] + live[d]);
    return most;
  }
  static std::int64_t max_device_bytes(const Plan& plan) {
    const auto planned = planned_bytes(plan);
    return planned.empty() ? 0 : *std::max_element(planned.begin(), planned.end());
  }

  // The plan of another rank.
  Compilation on_rank(const Compilation& made, int rank) const {
    Compilation there = made;
    there.options.rank = rank;
    run_on(there, {"localise", "hoist", "fuse", "in_place", "emit"});
    return there;
  }
  // All ranks have the same slots, so the plans of the ranks with the largest parts are checked too: those of each
  // mesh's first device.
  std::set<int> other_ranks() const {
    std::set<int> ranks;
    if (c_.options.world > 1)
      for (const Mesh& mesh : c_.graph.meshes) ranks.insert(mesh.devices[0].rank);
    ranks.erase(c_.options.rank);
    return ranks;
  }

  // True if a plan that has passed `emit` fits.
  bool fits(const Compilation& made) {
    ++plans_;
    if (!fits_here(made)) return false;
    const std::set<int> ranks = other_ranks();
    return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return fits_here(on_rank(made, rank)); });
  }
  bool fits_here(Compilation made) const {
    if (min_device_bytes(made.plan) > bytes_) return false;
    run_on(made, {"memory"});
    return max_device_bytes(made.plan) <= bytes_;
  }

  bool as_planned_fits() {
    if (max_device_bytes(c_.plan) > bytes_) return false;
    const std::set<int> ranks = other_ranks();
    return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return fits_here(on_rank(c_, rank)); });
  }

  Compilation compilation_of(Graph graph) const {
    Compilation there;
    there.graph = std::move(graph);
    there.ops = c_.ops, there.catalog = c_.catalog, there.evaluate = c_.evaluate, there.options = c_.options;
    there.hoist_bytes = 0;  // launches recompute constants in memory that other values use too
    return there;
  }

  // The program before `shard`.
  Graph before_shard(std::span<const std::string> remat) const {
    Graph graph = is_off("recompute") ? *c_.before_remat : recompute(*c_.before_remat, remat);
    return microbatch(graph, *c_.ops, c_.options.microbatches, c_.options.batch);
  }

  void add(ShardedGraph laid, bool late, const std::vector<std::string>& remat) {
    MemoryVariant variant{std::move(laid), {}, 0, late, remat};
    variant.boxed = box(variant.laid.graph, *c_.ops, variant.laid.wanted, c_.options.costs);
    if (late) {
      Graph gathered = gather_late(variant.boxed);
      if (remat.size() == c_.options.remat.size() && gathered.nodes.size() == variant.boxed.nodes.size())
        return;  // nothing is gathered
      variant.boxed = std::move(gathered);
    }
    variant.seconds = seconds_of_all(variant.boxed, c_.options.costs);
    variants_.push_back(std::move(variant));
  }

  void list_variants() {
    const auto& own = c_.options.remat;
    const Graph once = before_shard({});
    auto fastest = copy_layouts(once, *c_.sharded);  // recomputation changes no layout
    require(fastest.has_value(), "fit: a node of plan '", c_.graph.name,
            "' has no equal in the program without recomputation");
    const Graph& held = c_.sharded->graph;
    if (std::any_of(held.nodes.begin(), held.nodes.end(), [](const Node& node) {
          return node.setup;
        }))  // here launches compute the values that its set-up stored
      fastest = shard(once, c_.options.costs);
    unlimited_seconds_ = seconds_of_all(box(held, *c_.ops, c_.sharded->wanted, c_.options.costs), c_.options.costs);
    const auto laid = frontier(once, *c_.ops, c_.options.costs, *fastest);
    every_layout_ = laid.exhaustive;
    add_all(laid.candidates, own, false);
    add_all(laid.candidates, own, true);
    if (is_off("recompute")) return;
    for (const auto& remat : recompute_candidates(*c_.before_remat, own)) add_all(laid.candidates, remat, true);
  }
  void add_all(const std::vector<ShardedGraph>& laid, const std::vector<std::string>& remat, bool late) {
    const Graph graph = before_shard(remat);
    for (const ShardedGraph& one : laid) {
      check_interrupt();
      if (auto like = copy_layouts(graph, one)) add(std::move(*like), late, remat);
    }
  }

  Compilation ordered(const MemoryVariant& variant) const {
    Compilation there = compilation_of(variant.boxed);
    if (!variant.late) run_on(there, {"bucket"});  // which copies the values that it concatenates
    run_on(there, {"order"});
    return there;
  }
  void plan(Compilation& there) const {
    run_on(there, {"segment", "anchor", "slots", "layout", "localise", "hoist", "fuse", "in_place", "emit"});
  }
  Compilation planned(const MemoryVariant& variant) const {
    Compilation there = ordered(variant);
    plan(there);
    return there;
  }
  // True if a graph is too large to be worth a plan. With less memory this holds for more graphs, so fewer variants
  // remain.
  bool cannot_fit(const Graph& graph) const {
    return !every_layout_ &&
           min_plan_share * static_cast<double>(peak_device_bytes(graph)) > static_cast<double>(bytes_);
  }
  void set_slots(Compilation& there, const ById<ValueId, int>& slots) const {
    there.slot_assignment = assign_slots(there.graph, there.segmentation, there.options.costs, slots);
    run_on(there, {"emit"});
  }

  // The candidate with the most slots with which it fits, if any.
  std::optional<Candidate> fitted(const Candidate& now) {
    const MemoryVariant& variant = variants_[now.variant];
    tried_.push_back({peak_device_bytes(variant.boxed), now.variant});
    if (cannot_fit(variant.boxed)) return std::nullopt;
    Compilation there = ordered(variant);
    if (cannot_fit(there.graph)) return std::nullopt;
    plan(there);
    if (fits(there)) return Candidate{now.seconds, now.variant, {}, true};
    const ById<ValueId, int> least(there.slot_assignment.slots.size(), 1);
    tried_.back().least = min_device_bytes(there.plan);
    if (there.slot_assignment.slots == least) return std::nullopt;
    const double interval = there.slot_assignment.interval;
    Compilation small = there;
    set_slots(small, least);
    if (!fits(small)) {
      tried_.back().least = min_device_bytes(small.plan);
      return std::nullopt;
    }
    const auto fewer = fewer_slots(there.graph, there.segmentation, there.options.costs, there.options.slots);
    auto fits_with = [&](std::size_t choice) {
      check_interrupt();
      set_slots(there, fewer[choice]);
      return fits(there);
    };
    if (fewer.empty() || !fits_with(fewer.size() - 1)) return std::nullopt;
    std::size_t first = 0, end = fewer.size() - 1;  // it fits with `end`, and with none tried before `first`
    while (first < end) {
      const std::size_t tried = first + (end - first) / 2;
      if (fits_with(tried)) end = tried;
      else first = tried + 1;
    }
    const double lost =
        assign_slots(there.graph, there.segmentation, there.options.costs, fewer[end]).interval - interval;
    return Candidate{now.seconds + std::max(lost, 0.0), now.variant, fewer[end], true};
  }

  static std::int64_t constant_bytes(const Plan& plan) {
    std::int64_t bytes = 0;
    for (const plan::Block& block : plan.blocks)
      if (block.kind == plan::BlockKind::constant) bytes = std::max(bytes, block.bytes);
    return bytes;
  }

  // Bytes of the results of calls that `hoist` moved, on the device with most of them.
  static std::int64_t moved_bytes(const LocalProgram& program) {
    std::map<int, std::int64_t> bytes;
    std::int64_t most = 0;
    for (const LocalCall& call : program.setup)
      for (LocalId out : call.out)
        if (!call.in.empty())
          most = std::max(most, bytes[program.values[out].device] += program.values[out].view.bytes());
    return most;
  }

  // The candidate's plan that stores as many of its constants as fit, in eighths of them.
  Compilation holding_constants(const Candidate& chosen, double& interval) {
    constexpr int shares = 8;
    auto planned_with = [&](std::int64_t hoist_bytes) {
      Compilation there = ordered(variants_[chosen.variant]);
      there.hoist_bytes = hoist_bytes;
      plan(there);
      interval = there.slot_assignment.interval;
      if (chosen.slots) set_slots(there, *chosen.slots);
      return there;
    };
    Compilation none = planned_with(0);
    const std::int64_t least = constant_bytes(none.plan);
    const Compilation all = planned_with(INT64_MAX);
    all_constants_ = constant_bytes(all.plan);
    for (int share = all_constants_ > least ? shares - 1 : 0; share > 0; --share) {
      check_interrupt();
      Compilation some = planned_with(moved_bytes(all.local) / shares * share);
      if (fits(some)) return some;
    }
    return none;
  }

  void take(const Candidate& chosen) {
    const MemoryVariant& variant = variants_[chosen.variant];
    const std::size_t plans = plans_;
    double interval = 0;
    Compilation there = holding_constants(chosen, interval);
    plans_ = plans;
    run_on(there, {"memory"});
    there.slot_assignment.memory_note = memory_note(chosen, there.plan, interval, there.slot_assignment.interval);
    there.passes = std::move(c_.passes);
    there.before_remat = c_.before_remat, there.sharded = std::make_shared<const ShardedGraph>(variant.laid);
    there.cost = variant.laid.cost, there.cost_bound = c_.cost_bound;
    there.optimal = c_.optimal && there.cost <= c_.cost * (1 + 1e-11);
    there.wanted = variant.laid.wanted;
    const double gap = there.cost > 0 ? 100 * (there.cost - there.cost_bound) / there.cost : 0;
    there.shard_report = there.optimal ? c_.shard_report
                                       : cat("gap <= ", base::number(std::ceil(std::max(gap, 0.0) * 10) / 10),
                                             " % (layouts for memory)");
    c_ = std::move(there);
  }

  // Reports the smallest plan. The few variants with the smallest lower bounds are planned, since their packed size is
  // known only then.
  [[noreturn]] void refuse() {
    constexpr std::size_t max_packed = 8;
    std::stable_sort(tried_.begin(), tried_.end(), [](const Tried& a, const Tried& b) { return a.least < b.least; });
    std::optional<Compilation> smallest;
    std::size_t packed = 0;
    for (std::size_t t = 0; t < std::min(tried_.size(), max_packed); ++t, ++packed) {
      if (smallest && tried_[t].least >= max_device_bytes(smallest->plan)) break;
      Compilation own = planned(variants_[tried_[t].variant]);
      set_slots(own, ById<ValueId, int>(own.slot_assignment.slots.size(), 1));
      std::vector<Compilation> all;
      for (const int rank : other_ranks()) all.push_back(on_rank(own, rank));
      all.push_back(std::move(own));
      for (Compilation& one : all) run_on(one, {"memory"});
      auto fullest = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return max_device_bytes(a.plan) < max_device_bytes(b.plan);
      });
      if (!smallest || max_device_bytes(fullest->plan) < max_device_bytes(smallest->plan))
        smallest = std::move(*fullest);
    }
    fail_memory_limit(*smallest, bytes_, std::max(plans_, packed));
  }

  std::string_view caution() const { return default_costs_warning(c_.options.costs); }

  // `interval` between launches with the variant's own slots, `limited` with those that fit.
  std::string memory_note(const Candidate& chosen, const Plan& made, double interval, double limited) const {
    const MemoryVariant& variant = variants_[chosen.variant];
    std::string out;
    const std::int64_t held = constant_bytes(made);
    if (chosen.variant > 0 || variants_.size() > 1 || held < all_constants_) {
      out = cat("within ", bytes_text(bytes_), " per device: calls and transfers of ", microseconds(chosen.seconds),
                " a launch, predicted", caution(), "; without that limit ", microseconds(unlimited_seconds_), "; ",
                plans_, " plans tried of ", variants_.size(), " variants\n");
      if (held < all_constants_)
        out += cat("  constants that do not fit are computed in every launch: ", bytes_text(held), " of ",
                   bytes_text(all_constants_), " are stored\n");
      if (variant.late) out += "  sharded parameters are gathered right before use\n";
      if (variant.remat.size() > c_.options.remat.size())
        out += cat("  recomputed: ", join(variant.remat, " ", [](const std::string& module) { return module; }), "\n");
    }
    if (chosen.slots && interval > 0)
      out +=
          cat("slots given up to fit ", bytes_text(bytes_), " per device: by the planner's bound a launch every ",
              microseconds(limited), ", predicted", caution(), "; without that limit ", microseconds(interval), "\n");
    return out;
  }

  Compilation& c_;
  const std::int64_t bytes_;
  std::vector<MemoryVariant> variants_;
  bool every_layout_ = false;
  std::int64_t all_constants_ = 0;  // bytes, if the set-up of the chosen variant stores all of them
  double unlimited_seconds_ = 0;    // of the calls and transfers of the plan that does not fit
  std::size_t plans_ = 0;
  struct Tried {
    std::int64_t least = 0;  // bytes
    std::size_t variant = 0;
  };
  std::vector<Tried> tried_;  // without success, or not worth a plan
};

}  // namespace

void fit_memory(Compilation& c) {
  if (c.options.memory > 0) MemoryFit(c).run();
}

}  // namespace karez::passes
