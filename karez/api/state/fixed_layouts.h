// Fixes layouts and meshes of a function's variables before planning: by rules, by earlier functions, and by the
// placements of modules.
#pragma once

#include <cstddef>
#include <vector>

#include "karez/api/function_options.h"
#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/trace.h"
#include "karez/passes/sharding/layout_rules.h"

namespace karez {

// Applies rules to the variables with these indices. A rule matches a path, and so all parameters with that path.
void apply_rules_to(Graph& graph, const Trace& trace, const std::vector<std::size_t>& variables,
                    const std::vector<LayoutRule>& rules);

// Applies layouts that earlier functions fixed, then the user's rules. Both must agree with the hints of the body.
void fix_layouts(const WorldState& world, const Trace& trace, Graph& graph, const std::vector<LayoutRule>& rules);

// Relocates variables with a provisional layout that this program requires on another mesh: deletes them, so that they
// are created again on that mesh with their current values.
void relocate_variables(WorldState& world, const Trace& trace, SourceLine where);

// Returns the placements of the options, with the mesh of each.
std::vector<TracePlacement> placements_of(const DeviceMesh& mesh, const FunctionOptions& options);

// Returns the mesh of operations that no rule and no operand places: with stages, the first stage.
Mesh own_mesh(const DeviceMesh& mesh, const FunctionOptions& options);

}  // namespace karez
