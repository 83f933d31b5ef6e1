// Creates variables with launches that write their first values.
#include "karez/api/state/variable_initialisation.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <thread>

#include "karez/api/namespace.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/program_compilation.h"
#include "karez/api/state/session_plan.h"
#include "karez/api/state/stored_parts.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {

// Replaces first values by values from a checkpoint, or by the values that the variables had on their previous mesh.
void write_loaded_values(WorldState& world, std::span<const NewVariable> variables,
                         const std::vector<const PendingWeight*>& loaded) {
  try {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (loaded[i] == nullptr && !variables[i].relocated_value) continue;
      const auto& [parameter, key, mesh, layout, relocated_value] = variables[i];
      const StoredVariable stored{parameter.identity(), parameter.type(), mesh, layout};
      write_parts(parts_of(world, key, stored, true),
                  relocated_value ? *relocated_value : value_of(*loaded[i]->file, loaded[i]->offer, parameter.type()));
    }
  } catch (...) {  // the variables are not created, so that the next call starts again
    for (const NewVariable& variable : variables) world.session.forget_variable(session_name(variable.key));
    throw;
  }
  for (const NewVariable& variable : variables) {
    if (variable.relocated_value)
      std::erase_if(world.variables.relocated_values,
                    [&](const auto& item) { return variable.parameter == item.first; });
    else world.variables.pending_weights.remove(variable.parameter);
  }
}

// A launch that writes the first values of some variables.
struct InitLaunch {
  std::span<const NewVariable> variables;
  std::vector<const PendingWeight*> loaded;  // values from checkpoints, by variable
  VariableNames names;
  Compilation compilation;
};

InitLaunch plan_init_launch(WorldState& world, std::span<const NewVariable> variables, std::int64_t memory) {
  InitLaunch out{variables, {}, {}, {}};
  std::vector<Parameter> parameters;  // those without a relocated value
  for (const NewVariable& variable : variables)
    if (!variable.relocated_value) parameters.push_back(variable.parameter);
  out.loaded = world.variables.pending_weights.match(parameters);  // throws for a wrong type before any change
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (variables[i].relocated_value) out.loaded.insert(out.loaded.begin() + static_cast<std::ptrdiff_t>(i), nullptr);
  Trace trace(world.tables.ops, {.name = "init", .mesh = variables[0].mesh});
  Builder& b = trace.builder;
  std::vector<Mesh>& meshes = trace.graph.meshes;
  std::vector<ValueId> random_states;  // by mesh
  for (const auto& [parameter, key, mesh, layout, relocated_value] : variables) {
    auto existing = std::find(meshes.begin(), meshes.end(), mesh);
    b.mesh = static_cast<int>(existing - meshes.begin());
    if (existing == meshes.end()) meshes.push_back(mesh);
    b.path.clear();
    const auto m = static_cast<std::size_t>(b.mesh);
    if (m == random_states.size()) random_states.push_back(first_random_state(b, world.options.seed));
    trace.update(parameter, first_value(b, parameter, random_states[m]));
    Variable& variable = trace.graph.variables.back();
    variable.stored = layout;
    out.names[variable.name] = session_name(key);
  }
  Compilation c = make_compilation(world, std::move(trace.graph), {});
  c.options.memory = memory;
  out.compilation = compile_program(world, std::move(c));
  return out;
}

// Returns the number of bytes of the variable on the device that holds the largest part.
std::int64_t max_device_bytes(const NewVariable& variable) {
  const TensorType& type = variable.parameter.type();
  return count_of(shape_of(sbp::local_box(type.shape, variable.mesh, variable.layout, 0))) * size_of(type.dtype);
}

// Plans the launches that write all first values. This is one launch, or several if memory is limited and a single
// launch would need too much in addition to the variables.
std::vector<InitLaunch> plan_init_launches(WorldState& world, std::span<const NewVariable> variables,
                                           std::int64_t memory) {
  std::vector<InitLaunch> out;
  try {
    out.push_back(plan_init_launch(world, variables, memory));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::device || memory == 0 || variables.size() < 2) throw;
    const auto first = variables.first(variables.size() / 2), rest = variables.subspan(variables.size() / 2);
    for (const auto& [half, other] : {std::pair(first, rest), std::pair(rest, first)}) {
      std::int64_t remaining = memory;
      for (const NewVariable& variable : other) remaining -= max_device_bytes(variable);
      auto launches = plan_init_launches(world, half, std::max<std::int64_t>(remaining, 1));
      std::move(launches.begin(), launches.end(), std::back_inserter(out));
    }
  }
  return out;
}

// Runs a plan once. If memory is limited, waits until the plan is unloaded, so that the next plan can use its memory.
// Stops waiting after wait_limit, if a worker is busy for that long.
void run_once(const std::shared_ptr<WorldState>& owner, const Plan& plan, std::uint64_t op) {
  constexpr std::chrono::seconds wait_limit{10};
  const int old_plans = owner->session.plans();
  {
    SessionPlan session_plan(owner, plan);
    owner->session.launch(session_plan.number(), {}, {}, op).wait();
  }
  if (owner->options.memory == 0) return;
  const auto deadline = std::chrono::steady_clock::now() + wait_limit;
  while (owner->session.plans() > old_plans && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

Plan& rename_variables(Plan& plan, const VariableNames& names) {
  for (Block& block : plan.blocks)
    if (block.kind == BlockKind::variable) block.name = names.at(block.name);
  return plan;
}

void initialise(const std::shared_ptr<WorldState>& owner, const std::vector<NewVariable>& variables) {
  if (variables.empty()) return;
  WorldState& world = *owner;
  for (InitLaunch& launch : plan_init_launches(world, variables, world.compile_options(Graph()).memory)) {
    Plan& plan = launch.compilation.plan;
    const std::size_t others = launch.variables.size() - 1;
    const std::string what = cat("the initialisation of variable '", launch.variables[0].parameter.name(), "'",
                                 others > 0 ? cat(" and ", others, " more") : "");
    const std::uint64_t op = world.session.begin_op({.hash = plan.program_hash, .what = what});
    agree_on_links(world, plan, "the links for the initialisation of variables");
    if (plan.actors.empty()) world.session.launch_remote(op).wait();
    else run_once(owner, rename_variables(plan, launch.names), op);
    write_loaded_values(world, launch.variables, launch.loaded);
    for (const auto& [parameter, key, mesh, layout, relocated_value] : launch.variables)
      world.add_variable(key, parameter, mesh, layout);
  }
}

}  // namespace karez
