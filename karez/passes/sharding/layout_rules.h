// The user's rules for where variables are stored, put to a graph.
#pragma once

#include <span>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"
#include "karez/sbp/layout_rule.h"

namespace karez::passes {

// Fixes the stored layouts of variables by glob over their names before `compile`: a rule that matches nothing, that
// does not fit a variable's shape or mesh, or that differs from what an earlier rule or compile fixed, is an error that
// names the rule and lists what there is.
void apply_rules(Graph& graph, std::span<const LayoutRule> rules);

}  // namespace karez::passes
