// Layouts of a function's variables that are fixed before planning: by its rules, by earlier functions, and by the
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

// Applies rules to some of a graph's variables. Rules match parameters' paths, and so all parameters of one path.
void apply_rules_to(Graph& graph, const Trace& trace, const std::vector<std::size_t>& which,
                    const std::vector<LayoutRule>& rules);

// Applies layouts that earlier functions fixed, then the user's rules: these and the body's hints must agree.
void fix_layouts(const WorldState& world, const Trace& trace, Graph& graph, const std::vector<LayoutRule>& rules);

// Relocates variables without a fixed layout that this program needs on another mesh: they are created again there with
// their current values.
void relocate_variables(WorldState& world, const Trace& trace, SourceLine where);

std::vector<TracePlacement> placements_of(const DeviceMesh& on, const FunctionOptions& options);

// The mesh of operations that no rule and no operand places: with stages, the first stage.
Mesh own_mesh(const DeviceMesh& on, const FunctionOptions& options);

}  // namespace karez
