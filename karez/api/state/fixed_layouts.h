// How a function's variables lie before it is planned: by its rules, by what earlier functions fixed, and by the
// placements of its modules.
#pragma once

#include <cstddef>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/trace.h"
#include "karez/passes/sharding/layout_rules.h"

namespace karez {

// Rules for some of a graph's variables. They speak of parameters' paths, whatever tells two of one path apart.
void apply_rules_to(Graph& graph, const Trace& trace, const std::vector<std::size_t>& which,
                    const std::vector<LayoutRule>& rules);

// What earlier functions fixed, then the user's rules: where they and the body's hints speak they must agree.
void fix_layouts(const WorldState& world, const Trace& trace, Graph& graph, const std::vector<LayoutRule>& rules);

// Loose variables that this program wants elsewhere are none any more, and begin where it wants them with what they
// hold.
void relocate_variables(WorldState& world, const Trace& trace, SourceLine where);

std::vector<TracePlacement> placements_of(const DeviceMesh& on, const FunctionOptions& options);

// Where lies what no rule and no operand places: with stages on the first of them.
Mesh own_mesh(const DeviceMesh& on, const FunctionOptions& options);

}  // namespace karez
