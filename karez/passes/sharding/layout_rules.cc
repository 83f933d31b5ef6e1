// Applies every rule to every variable that its pattern matches.
#include "karez/passes/sharding/layout_rules.h"

#include <algorithm>

#include "karez/base/glob.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/sbp/effective_layout.h"
#include "karez/sbp/partition_spec.h"

namespace karez::passes {

void apply_rules(Graph& graph, std::span<const LayoutRule> rules) {
  std::vector<bool> has_rule(graph.variables.size());  // variables with an earlier rule
  for (const LayoutRule& rule : rules) {
    bool has_match = false;
    std::vector<std::size_t> scalars;
    const Glob pattern(rule.pattern);
    for (std::size_t v = 0; v < graph.variables.size(); ++v) {
      Variable& variable = graph.variables[v];
      if (!pattern.matches(variable.name)) continue;
      const bool splits = !rule.splits.empty() || std::any_of(rule.axes.begin(), rule.axes.end(),
                                                              [](const std::string& axis) { return !axis.empty(); });
      // A rule that splits skips variables without dimensions, unless it names the variable exactly.
      if (variable.type.rank() == 0 && rule.pattern != variable.name && splits) {
        scalars.push_back(v);
        continue;
      }
      has_match = true;
      const Mesh& mesh = graph.meshes[static_cast<std::size_t>(variable.mesh)];
      const std::string error_prefix = cat("rule '", rule.pattern, "' for ", variable.name, ", ", variable.type, ",");
      require(ErrorKind::layout, rule.axes.empty() || rule.splits.empty(), error_prefix,
              " lists both dimensions and mesh axes; give only one of them");
      const int rank = variable.type.rank();
      Layout layout = rule.splits.empty() ? layout_from(rule.axes, rank, mesh, error_prefix)
                                          : layout_from(rule.splits, rank, mesh, error_prefix);
      const bool agrees = !variable.stored || (has_rule[v] ? *variable.stored == layout
                                                           : sbp::layouts_agree(mesh, *variable.stored, layout));
      if (!agrees)
        fail(ErrorKind::layout, "rule '", rule.pattern, "' requires ", variable.name, " as ",
             print(variable.type, mesh, layout), ", but an earlier rule or compiled function stored it as ",
             variable.stored ? print(variable.type, mesh, *variable.stored) : std::string());
      variable.stored = layout;
      has_rule[v] = true;
    }
    if (!has_match && !scalars.empty())
      fail(ErrorKind::layout, "rule '", rule.pattern,
           "' splits dimensions, but matches only variables without dimensions: ",
           join(scalars, ", ", [&](std::size_t v) { return graph.variables[v].name; }));
    if (!has_match)
      fail(ErrorKind::name, "rule '", rule.pattern, "' matches no parameter; ",
           suggest_names(rule.pattern, graph.variables, [](const Variable& v) { return v.name; }));
  }
}

}  // namespace karez::passes
