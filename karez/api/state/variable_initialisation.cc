// The launches that write first values.
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

// Replaces first values by values from a checkpoint, or by the values that variables had on their previous mesh.
void write_loaded_values(WorldState& world, std::span<const NewVariable> fresh,
                         const std::vector<const PendingWeight*>& loaded) {
  try {
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      if (loaded[i] == nullptr && !fresh[i].relocated_value) continue;
      const auto& [parameter, key, mesh, layout, relocated_value] = fresh[i];
      const StoredVariable stored{parameter.identity(), parameter.type(), mesh, layout};
      write_parts(parts_of(world, key, stored, true),
                  relocated_value ? *relocated_value : value_of(*loaded[i]->file, loaded[i]->offer, parameter.type()));
    }
  } catch (...) {  // they are not created: the next call starts again
    for (const NewVariable& one : fresh) world.session.forget_variable(key_of(one.key.first, one.key.second));
    throw;
  }
  for (const NewVariable& one : fresh) {
    if (one.relocated_value)
      std::erase_if(world.relocated_values, [&](const auto& item) { return one.parameter == item.first; });
    else world.pending_weights.remove(one.parameter);
  }
}

// A launch that writes the first values of some of them.
struct InitLaunch {
  std::span<const NewVariable> fresh;
  std::vector<const PendingWeight*> loaded;  // by variable, from checkpoints
  VariableNames names;
  Compilation made;
};

InitLaunch plan_init_launch(WorldState& world, std::span<const NewVariable> fresh, std::int64_t memory) {
  InitLaunch out{fresh, {}, {}, {}};
  std::vector<Parameter> born;
  for (const NewVariable& one : fresh)
    if (!one.relocated_value) born.push_back(one.parameter);
  out.loaded = world.pending_weights.match(born);  // throws for a wrong type before anything is made
  for (std::size_t i = 0; i < fresh.size(); ++i)
    if (fresh[i].relocated_value) out.loaded.insert(out.loaded.begin() + static_cast<std::ptrdiff_t>(i), nullptr);
  Trace trace(world.ops, {.name = "init", .mesh = fresh[0].mesh});
  Builder& b = trace.builder;
  std::vector<Mesh>& meshes = trace.graph.meshes;
  std::vector<ValueId> random;  // by mesh
  for (const auto& [parameter, key, mesh, layout, relocated_value] : fresh) {
    auto known = std::find(meshes.begin(), meshes.end(), mesh);
    b.mesh = static_cast<int>(known - meshes.begin());
    if (known == meshes.end()) meshes.push_back(mesh);
    b.path.clear();
    const auto at = static_cast<std::size_t>(b.mesh);
    if (at == random.size()) random.push_back(first_random_state(b, world.options.seed));
    trace.update(parameter, first_value(b, parameter, random[at]));
    Variable& variable = trace.graph.variables.back();
    variable.stored = layout;
    out.names[variable.name] = key_of(key.first, key.second);
  }
  Compilation c = make_compilation(world, std::move(trace.graph), {});
  c.options.memory = memory;
  out.made = compile_program(world, std::move(c));
  return out;
}

// Bytes on the device that has the largest part.
std::int64_t bytes_of(const NewVariable& fresh) {
  const TensorType& type = fresh.parameter.type();
  return count_of(shape_of(sbp::local_box(type.shape, fresh.mesh, fresh.layout, 0))) * size_of(type.dtype);
}

// The launches that write all first values: one, or several if memory is limited and one needs too much in addition to
// the variables themselves.
std::vector<InitLaunch> plan_init_launches(WorldState& world, std::span<const NewVariable> fresh, std::int64_t memory) {
  std::vector<InitLaunch> out;
  try {
    out.push_back(plan_init_launch(world, fresh, memory));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::device || memory == 0 || fresh.size() < 2) throw;
    const auto first = fresh.first(fresh.size() / 2), rest = fresh.subspan(fresh.size() / 2);
    for (const auto& [half, other] : {std::pair(first, rest), std::pair(rest, first)}) {
      std::int64_t left = memory;
      for (const NewVariable& one : other) left -= bytes_of(one);
      auto launches = plan_init_launches(world, half, std::max<std::int64_t>(left, 1));
      std::move(launches.begin(), launches.end(), std::back_inserter(out));
    }
  }
  return out;
}

// Runs a plan once. If memory is limited, it is unloaded before another plan is loaded, except if a worker stays busy
// for too long.
void run_once(const std::shared_ptr<WorldState>& owner, const Plan& plan, std::uint64_t op) {
  constexpr std::chrono::seconds wait_limit{10};
  const int before = owner->session.plans();
  {
    SessionPlan once(owner, plan);
    owner->session.launch(once.number(), {}, {}, op).wait();
  }
  if (owner->options.memory == 0) return;
  const auto last = std::chrono::steady_clock::now() + wait_limit;
  while (owner->session.plans() > before && std::chrono::steady_clock::now() < last)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

Plan& rename_variables(Plan& plan, const VariableNames& names) {
  for (Block& block : plan.blocks)
    if (block.kind == BlockKind::variable) block.name = names.at(block.name);
  return plan;
}

void initialise(const std::shared_ptr<WorldState>& owner, const std::vector<NewVariable>& fresh) {
  if (fresh.empty()) return;
  WorldState& world = *owner;
  for (InitLaunch& launch : plan_init_launches(world, fresh, world.compile_options(Graph()).memory)) {
    Plan& plan = launch.made.plan;
    const std::string what = cat("the first values of variables: ", launch.fresh[0].parameter.name(), " and ",
                                 launch.fresh.size() - 1, " more");
    const std::uint64_t op = world.session.begin_op({.hash = plan.program_hash, .what = what});
    agree_on_links(world, plan, "the links of first values");
    if (plan.actors.empty()) world.session.launch_remote(op).wait();
    else run_once(owner, rename_variables(plan, launch.names), op);
    write_loaded_values(world, launch.fresh, launch.loaded);
    for (const auto& [parameter, key, mesh, layout, relocated_value] : launch.fresh)
      world.add(key, parameter, mesh, layout);
  }
}

}  // namespace karez
