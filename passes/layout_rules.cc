// Every rule over every variable that its pattern matches.
#include "passes/layout_rules.h"

#include "base/glob.h"
#include "base/near.h"
#include "sbp/layout_words.h"

namespace karez::passes {

void apply_rules(Graph& graph, std::span<const LayoutRule> rules) {
  for (const LayoutRule& rule : rules) {
    bool any = false;
    const Glob pattern(rule.pattern);
    for (Variable& variable : graph.variables) {
      if (!pattern.matches(variable.name)) continue;
      any = true;
      const Mesh& mesh = graph.meshes[static_cast<std::size_t>(variable.mesh)];
      Layout layout =
          layout_from(rule.axes, variable.type.rank(), mesh, cat("rule '", rule.pattern, "' for ", variable.name, ", ", variable.type, ","));
      require(ErrorKind::layout, !variable.stored || *variable.stored == layout, "rule '", rule.pattern, "' wants ", variable.name, " as ",
              print(variable.type, mesh, layout), ", but an earlier rule or compile stored it as ",
              variable.stored ? print(variable.type, mesh, *variable.stored) : std::string());
      variable.stored = layout;
    }
    if (!any)
      fail(ErrorKind::name, "rule '", rule.pattern, "' matches no parameter; ",
           near_names(rule.pattern, graph.variables, [](const Variable& v) { return v.name; }));
  }
}

}  // namespace karez::passes
