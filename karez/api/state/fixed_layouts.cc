// Applies rules, layouts of earlier functions and placements to the variables of a program, and relocates variables.
#include "karez/api/state/fixed_layouts.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "karez/api/state/stored_parts.h"
#include "karez/base/glob.h"
#include "karez/base/text.h"
#include "karez/sbp/effective_layout.h"

namespace karez {

void apply_rules_to(Graph& graph, const Trace& trace, const std::vector<std::size_t>& variables,
                    const std::vector<LayoutRule>& rules) {
  Graph selection;
  selection.meshes = graph.meshes;
  for (std::size_t v : variables) {
    selection.variables.push_back(graph.variables[v]);
    selection.variables.back().name = trace.path_of(trace.parameters()[v]);
  }
  apply_rules(selection, rules);
  for (std::size_t i = 0; i < variables.size(); ++i)
    graph.variables[variables[i]].stored = selection.variables[i].stored;
}

namespace {
// Formats the mesh; adds its devices if the other mesh is formatted the same way without them.
std::string format_mesh(const Mesh& mesh, const Mesh& other) {
  const std::string text = sbp::print(mesh);
  return text == sbp::print(other)
             ? cat(text, " at ", join(mesh.devices, ", ", [](DeviceName device) { return sbp::print(device); }))
             : text;
}
}  // namespace

void fix_layouts(const WorldState& world, const Trace& trace, Graph& graph, const std::vector<LayoutRule>& rules) {
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    Variable& variable = graph.variables[i];
    auto match = world.variables.find(trace.parameters()[i]);
    if (match == world.variables.by_key.end()) continue;
    const StoredVariable& stored = match->second;
    const Mesh& mesh = graph.meshes[static_cast<std::size_t>(variable.mesh)];
    require(stored.mesh == mesh, "variable '", variable.name, "' is on ", format_mesh(stored.mesh, mesh),
            "; this function is compiled for ", format_mesh(mesh, stored.mesh),
            ". A variable stays on the mesh of the first function that used it. Compile for that mesh, with the same "
            "placements (gradients of variables on several meshes must be taken inside of a compiled function), or "
            "save the variables, reset the world and load them");
    if (variable.stored && !layouts_agree(mesh, stored.layout, *variable.stored))
      fail("this function's body requires '", variable.name, "' to be stored as ",
           variable.stored ? sbp::print(variable.type, mesh, *variable.stored) : std::string(),
           " (by with_layout, or by a rule of a function in it), but an earlier function stored it as ",
           sbp::print(variable.type, mesh, stored.layout));
    if (!variable.stored) variable.stored = stored.layout;
  }
  std::vector<std::size_t> all(graph.variables.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  apply_rules_to(graph, trace, all, rules);
}

namespace {
// Returns the devices of a mesh at one coordinate of its axis `stage`, as a mesh of the remaining axes.
Mesh stage_mesh(const Mesh& mesh, int stage, const std::string& module) {
  auto axis = std::find_if(mesh.axes.begin(), mesh.axes.end(), [](const MeshAxis& a) { return a.name == "stage"; });
  if (axis == mesh.axes.end())
    fail(ErrorKind::device, "placements: '", module, "' is placed at stage ", stage, ", but ", sbp::print(mesh),
         " has no axis 'stage'");
  if (stage < 0 || stage >= axis->size)
    fail(ErrorKind::device, "placements: '", module, "' is placed at stage ", stage, "; ", sbp::print(mesh),
         " has stages 0 to ", axis->size - 1);
  const auto number = static_cast<std::size_t>(axis - mesh.axes.begin());
  Mesh out{mesh.axes, {}};
  out.axes.erase(out.axes.begin() + static_cast<std::ptrdiff_t>(number));
  for (int position = 0; position < mesh.size(); ++position)
    if (mesh.coordinates(position)[number] == stage)
      out.devices.push_back(mesh.devices[static_cast<std::size_t>(position)]);
  return out;
}
}  // namespace

std::vector<TracePlacement> placements_of(const DeviceMesh& function_mesh, const FunctionOptions& options) {
  std::vector<TracePlacement> out;
  for (const PlacementRule& rule : options.placements) {
    const auto* mesh = std::get_if<DeviceMesh>(&rule.where);
    require(ErrorKind::device, mesh == nullptr || mesh->world == function_mesh.world, "placements: the mesh for '",
            rule.module, "' belongs to a different world from the function");
    base::Glob(rule.module);  // throws if the glob is malformed
    out.push_back({rule.module, mesh != nullptr
                                    ? mesh->mesh
                                    : stage_mesh(function_mesh.mesh, std::get<int>(rule.where), rule.module)});
  }
  return out;
}

Mesh own_mesh(const DeviceMesh& mesh, const FunctionOptions& options) {
  for (const PlacementRule& rule : options.placements)
    if (std::holds_alternative<int>(rule.where)) return stage_mesh(mesh.mesh, 0, rule.module);
  return mesh.mesh;
}

void relocate_variables(WorldState& world, const Trace& trace, SourceLine where) {
  const std::vector<Mesh>& meshes = trace.graph.meshes;
  std::unique_lock<std::mutex> expressions_lock;
  for (const Parameter& parameter : trace.parameters()) {
    const auto key_to_relocate = [&]() -> std::optional<VariableKey> {
      const auto match = world.variables.find(parameter);
      if (match == world.variables.by_key.end() || !match->second.provisional ||
          (meshes.size() == 1 && meshes[0] == match->second.mesh))
        return {};
      return match->first;
    };
    {
      WorldLock lock(world);
      if (!key_to_relocate()) continue;
    }
    if (!expressions_lock.owns_lock()) {
      expressions_lock = std::unique_lock(world.expression_plans.mutex);
      world.expression_plans.entries.clear();  // the plans hold references to the parameters
    }
    const HostArray value = read_variable(world, parameter, where);
    WorldLock lock(world);
    const auto key = key_to_relocate();
    if (!key) continue;
    world.variables.relocated_values.emplace_back(parameter, value);
    world.erase_variable(*key);
  }
}

}  // namespace karez
