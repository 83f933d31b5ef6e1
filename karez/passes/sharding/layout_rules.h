// Applies the user's rules for the layouts of variables to a graph.
#pragma once

#include <span>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"
#include "karez/sbp/layout_rule.h"

namespace karez::passes {

// Fixes the stored layouts of variables by glob patterns over their names. Call before `compile`. A rule is an error if
// it matches nothing, does not fit a variable's shape or mesh, or contradicts an earlier rule or an earlier compiled
// function. The error names the rule and the valid alternatives.
void apply_rules(Graph& graph, std::span<const LayoutRule> rules);

}  // namespace karez::passes
