// Fixes the layouts and meshes of a function's variables before planning. Rules, earlier functions and the placements
// of modules determine them.
#pragma once

#include <cstddef>
#include <vector>

#include "karez/api/function_options.h"
#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/trace.h"
#include "karez/passes/sharding/layout_rules.h"

namespace karez {

// Applies rules to the variables with these indices. A rule matches paths, so it applies to all parameters with a
// matching path.
void apply_rules_to(Graph& graph, const Trace& trace, const std::vector<std::size_t>& variables,
                    const std::vector<LayoutRule>& rules);

// Applies the layouts that earlier functions fixed, and then the user's rules. Throws if these layouts contradict a
// with_layout in the body.
void fix_layouts(const WorldState& world, const Trace& trace, Graph& graph, const std::vector<LayoutRule>& rules);

// Relocates variables that have a provisional layout and that this program requires on another mesh. They are deleted
// here; the program then creates them again on that mesh with their current values.
void relocate_variables(WorldState& world, const Trace& trace, SourceLine where);

// Returns the placements of the options, with the mesh of each.
std::vector<TracePlacement> placements_of(const DeviceMesh& mesh, const FunctionOptions& options);

// Returns the mesh of operations whose mesh neither a rule nor an operand determines: the function's mesh, or its first
// stage if placements name stages.
Mesh own_mesh(const DeviceMesh& mesh, const FunctionOptions& options);

}  // namespace karez
