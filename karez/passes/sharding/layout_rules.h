// Applies the user's rules for the layouts of variables to a graph.
#pragma once

#include <span>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"
#include "karez/sbp/layout_rule.h"

namespace karez::passes {

// Fixes the stored layouts of variables by glob patterns over their names before `compile`. A rule that matches
// nothing, does not fit a variable's shape or mesh, or contradicts an earlier rule or compile is an error that names
// the rule and the valid alternatives.
void apply_rules(Graph& graph, std::span<const LayoutRule> rules);

}  // namespace karez::passes
