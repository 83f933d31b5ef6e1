// Runs the planner with the value fixed in each of its legal layouts in turn.
#include "karez/passes/sharding/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/passes/compile.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/scheduling/critical_cycle.h"
#include "karez/passes/sharding/setup_nodes.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {
namespace {

constexpr std::size_t max_reasons = 3;

// Values by name. Among equal names, variables come first, then inputs, outputs and modules.
std::map<std::string, ValueId> values_by_name(const Graph& graph) {
  std::map<std::string, ValueId> out;
  for (const Variable& variable : graph.variables)
    if (variable.read.valid()) out.emplace(variable.name, variable.read);
  for (const Node& node : graph.nodes)
    if (node.op->role == Role::source) out.emplace(node.attrs.text("name"), node.outputs[0]);
  for (const Output& output : graph.outputs) out.emplace(output.name, output.value);
  std::map<std::string, ValueId> modules;
  for (const Node& node : graph.nodes)
    if (!node.path.empty()) modules[node.path] = node.outputs[0];
  out.insert(modules.begin(), modules.end());
  return out;
}

ValueId value_named(const Graph& graph, std::string_view name) {
  const auto known = values_by_name(graph);
  if (auto found = known.find(std::string(name)); found != known.end()) return found->second;
  for (ValueId value : graph.values.ids())
    if (name == cat("%", value)) return value;
  fail("unknown value, module or variable '", name, "'; ",
       base::suggest_names(name, known, [](const auto& entry) { return entry.first; }), "; or %0 to %",
       graph.values.size() - 1);
}

Variable* variable_of(Graph& graph, ValueId value) {
  const auto found =
      std::find_if(graph.variables.begin(), graph.variables.end(), [&](const Variable& v) { return v.read == value; });
  return found == graph.variables.end() ? nullptr : &*found;
}

bool is_fixed(Graph& graph, ValueId value) {
  const Variable* variable = variable_of(graph, value);
  return graph.value(value).layout || (variable != nullptr && variable->stored);
}

Graph with_layout(Graph graph, ValueId value, const std::optional<Layout>& layout) {
  graph.value(value).layout = layout;
  if (Variable* variable = variable_of(graph, value)) variable->stored = layout;
  return graph;
}

std::set<Layout> legal_layouts(const Graph& graph, ValueId value, const CostTable& costs) {
  const Graph unfixed = with_layout(graph, value, std::nullopt);
  std::set<Layout> out;
  for (const NodeChoice& choice : choices_of(unfixed, unfixed.value(value).producer, costs))
    out.insert(choice.out(static_cast<std::size_t>(unfixed.value(value).output)));
  return out;
}

struct Reason {
  double seconds;
  std::string what;
};

std::vector<std::string> slower_parts(const Graph& graph, const CostBreakdown& old_costs,
                                      const CostBreakdown& new_costs) {
  std::vector<Reason> reasons;
  for (NodeId n : old_costs.calls.ids())
    reasons.push_back({new_costs.calls[n] - old_costs.calls[n], describe(graph, n)});
  for (ValueId v : old_costs.moves.ids())
    reasons.push_back(
        {new_costs.moves[v] - old_costs.moves[v], cat("transfer of ", describe(graph, graph.value(v).producer))});
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const Reason& a, const Reason& b) { return a.seconds > b.seconds; });
  std::vector<std::string> out;
  for (const Reason& reason : reasons)
    if (out.size() < max_reasons && reason.seconds > 1e-9)
      out.push_back(cat(reason.what, " +", microseconds(reason.seconds)));
  return out;
}

// Compiles the program with the memory limit, and returns the layout that the value gets.
LimitedLayout layout_within_limit(Compilation c, std::string_view name) {
  LimitedLayout out{c.options.memory, {}, {}};
  try {
    compile(c);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::device) throw;
    out.reason = error.what();
    out.reason = out.reason.substr(0, out.reason.find(';'));
    return out;
  }
  if (!c.slot_assignment.memory_note.starts_with("within ")) return out;
  out.reason = c.slot_assignment.memory_note.substr(0, c.slot_assignment.memory_note.find('\n'));
  if (!name.starts_with('%')) out.layout = c.sharded->graph.value(value_named(c.sharded->graph, name)).layout;
  return out;
}

double sum(const ById<NodeId, double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

std::string limit_text(const LayoutExplanation& e) {
  const LimitedLayout& limited = *e.within;
  const std::string limit = bytes_text(limited.bytes);
  if (limited.reason.empty()) return cat("the fastest plan needs no more than the limit of ", limit, " per device\n");
  const std::string layout_text = limited.layout ? cat("  ", sbp::print(e.type, e.mesh, *limited.layout),
                                                       ": chosen within ", limit, " per device\n")
                                                 : "";
  return cat(layout_text, "  ", limited.reason, "\nwithout that limit:\n");
}

}  // namespace

LayoutExplanation explain_layout(Compilation c, std::string_view name) {
  const Compilation unplanned = c;
  run_passes(c, {"unroll", "canonicalise", "microbatch"});  // recompute changes no layout
  const CostTable& costs = c.options.costs;
  const ValueId value = value_named(c.graph, name);
  const bool setup = std::find(c.options.off.begin(), c.options.off.end(), "hoist") == c.options.off.end();
  auto sharded = [&](Graph graph) {
    if (setup) graph = with_setup_nodes(std::move(graph), *c.catalog);
    const FusedValues fused = fused_values(graph, *c.catalog, c.options);
    return shard(std::move(graph), costs, fused);
  };
  const ShardedGraph chosen = sharded(c.graph);
  const CostBreakdown old_costs = cost_breakdown(chosen.graph, chosen.operand_layouts, costs, chosen.fused);
  const Layout layout = *chosen.graph.value(value).layout;
  LayoutExplanation out{std::string(name),
                        c.graph.type(value),
                        c.graph.mesh(value),
                        is_fixed(c.graph, value),
                        {},
                        {},
                        std::string(default_costs_warning(costs))};
  out.alternatives.push_back({layout, chosen.cost, sum(old_costs.calls), chosen.report, {}});
  for (const Layout& alternative_layout : legal_layouts(c.graph, value, costs)) {
    if (alternative_layout == layout) continue;
    const ShardedGraph alternative = sharded(with_layout(c.graph, value, alternative_layout));
    const CostBreakdown new_costs =
        cost_breakdown(alternative.graph, alternative.operand_layouts, costs, alternative.fused);
    out.alternatives.push_back({alternative_layout, alternative.cost, sum(new_costs.calls), alternative.report,
                                slower_parts(c.graph, old_costs, new_costs)});
  }
  std::stable_sort(out.alternatives.begin() + 1, out.alternatives.end(),
                   [](const LayoutAlternative& a, const LayoutAlternative& b) { return a.seconds < b.seconds; });
  if (unplanned.options.memory > 0) out.within = layout_within_limit(unplanned, name);
  return out;
}

std::string print(const LayoutExplanation& e) {
  std::string out = cat("'", e.name, "' on ", sbp::print(e.mesh),
                        ", predicted for a launch of the whole program with each of its layouts",
                        e.warning.empty() ? "" : ",", e.warning, "\n");
  if (e.within) out += limit_text(e);
  const double best = e.alternatives.front().seconds;
  for (const LayoutAlternative& a : e.alternatives) {
    const bool chosen = &a == &e.alternatives.front();
    out += cat("  ", sbp::print(e.type, e.mesh, a.layout), ": ");
    out += cat(microseconds(a.seconds), ", ", microseconds(a.calls), " in calls and ",
               microseconds(a.seconds - a.calls), " in transfers");
    if (chosen) out += e.fixed ? ", as requested" : ", chosen";
    else
      out += cat(", ", a.seconds < best ? "-" : "+",
                 base::number(best > 0 ? std::round(std::abs(a.seconds - best) / best * 1e4) / 100 : 0), " %");
    out += cat("; ", a.report, "\n");
    if (!a.slower.empty())
      out += cat("    slower: ", base::join(a.slower, "; ", [](const std::string& text) { return text; }), "\n");
  }
  return out;
}

}  // namespace karez::passes
