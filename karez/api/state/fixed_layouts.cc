// Fixes stored layouts by rules, by earlier functions and by placements.
#include "karez/api/state/fixed_layouts.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "karez/api/state/stored_parts.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/base/glob.h"
#include "karez/base/text.h"
#include "karez/sbp/effective_layout.h"

namespace karez {

void apply_rules_to(Graph& graph, const Trace& trace, const std::vector<std::size_t>& which,
                    const std::vector<LayoutRule>& rules) {
  Graph part;
  part.meshes = graph.meshes;
  for (std::size_t v : which) {
    part.variables.push_back(graph.variables[v]);
    part.variables.back().name = trace.path_of(trace.parameters()[v]);
  }
  apply_rules(part, rules);
  for (std::size_t i = 0; i < which.size(); ++i) graph.variables[which[i]].stored = part.variables[i].stored;
}

namespace {
// The mesh as text, with its devices if the other mesh has the same text.
std::string lies_on(const Mesh& mesh, const Mesh& other) {
  const std::string text = sbp::print(mesh);
  return text == sbp::print(other)
             ? cat(text, " at ", join(mesh.devices, ", ", [](DeviceName device) { return sbp::print(device); }))
             : text;
}
}  // namespace

void fix_layouts(const WorldState& world, const Trace& trace, Graph& graph, const std::vector<LayoutRule>& rules) {
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    Variable& variable = graph.variables[i];
    auto found = world.find(trace.parameters()[i]);
    if (found == world.variables.end()) continue;
    const StoredVariable& stored = found->second;
    const Mesh& mesh = graph.meshes[static_cast<std::size_t>(variable.mesh)];
    require(stored.mesh == mesh, "variable '", variable.name, "' is on ", lies_on(stored.mesh, mesh),
            "; this function is compiled for ", lies_on(mesh, stored.mesh),
            ". A variable stays on the mesh of the first function that used it: compile for that mesh, with the same "
            "placements "
            "(gradients of variables on ",
            "several meshes must be taken inside of a compiled function), or save, reset the world and load");
    require(!variable.stored || layouts_agree(mesh, stored.layout, *variable.stored), "this function's body requires '",
            variable.name, "' stored as ",
            variable.stored ? sbp::print(variable.type, mesh, *variable.stored) : std::string(),
            " (by with_layout, or by a rule of a function in it), ", "but an earlier function stored it as ",
            sbp::print(variable.type, mesh, stored.layout));
    if (!variable.stored) variable.stored = stored.layout;
  }
  std::vector<std::size_t> all(graph.variables.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  apply_rules_to(graph, trace, all, rules);
}

namespace {
// The devices of a mesh at one coordinate of its axis `stage`, along the remaining axes.
Mesh at_stage(const Mesh& mesh, int stage, const std::string& module) {
  auto axis = std::find_if(mesh.axes.begin(), mesh.axes.end(), [](const MeshAxis& a) { return a.name == "stage"; });
  require(ErrorKind::device, axis != mesh.axes.end(), "placements: '", module, "' is placed at stage ", stage, ", but ",
          sbp::print(mesh), " has no axis 'stage'");
  require(ErrorKind::device, stage >= 0 && stage < axis->size, "placements: '", module, "' is placed at stage ", stage,
          "; ", sbp::print(mesh), " has stages 0 to ", axis->size - 1);
  const auto number = static_cast<std::size_t>(axis - mesh.axes.begin());
  Mesh out{mesh.axes, {}};
  out.axes.erase(out.axes.begin() + static_cast<std::ptrdiff_t>(number));
  for (int position = 0; position < mesh.size(); ++position)
    if (mesh.coordinates(position)[number] == stage)
      out.devices.push_back(mesh.devices[static_cast<std::size_t>(position)]);
  return out;
}
}  // namespace

std::vector<TracePlacement> placements_of(const DeviceMesh& on, const FunctionOptions& options) {
  std::vector<TracePlacement> out;
  for (const PlacementRule& rule : options.placements) {
    const auto* mesh = std::get_if<DeviceMesh>(&rule.where);
    require(ErrorKind::device, mesh == nullptr || mesh->world == on.world, "placements: the mesh for '", rule.module,
            "' belongs to a different world from the function");
    base::Glob(rule.module);  // throws if it is malformed
    out.push_back(
        {rule.module, mesh != nullptr ? mesh->mesh : at_stage(on.mesh, std::get<int>(rule.where), rule.module)});
  }
  return out;
}

Mesh own_mesh(const DeviceMesh& on, const FunctionOptions& options) {
  for (const PlacementRule& rule : options.placements)
    if (std::holds_alternative<int>(rule.where)) return at_stage(on.mesh, 0, rule.module);
  return on.mesh;
}

void relocate_variables(WorldState& world, const Trace& trace, SourceLine where) {
  const std::vector<Mesh>& meshes = trace.graph.meshes;
  std::unique_lock<std::mutex> no_expression;
  for (const Parameter& parameter : trace.parameters()) {
    const auto provisional = [&]() -> std::optional<WorldState::Key> {
      const auto found = world.find(parameter);
      if (found == world.variables.end() || !found->second.provisional ||
          (meshes.size() == 1 && meshes[0] == found->second.mesh))
        return {};
      return found->first;
    };
    {
      WorldLock lock(world);
      if (!provisional()) continue;
    }
    if (!no_expression.owns_lock()) {
      no_expression = std::unique_lock(world.expression_plans->mutex);
      world.expression_plans->plans.clear();  // they hold references to the parameters
    }
    const HostArray value = read_variable(world, parameter, where);
    WorldLock lock(world);
    const auto key = provisional();
    if (!key) continue;
    world.relocated_values.emplace_back(parameter, value);
    world.erase(*key);
  }
}

}  // namespace karez
