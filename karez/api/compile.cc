// Implements Function. The first call with a signature traces the body, fixes the layouts of stored variables, makes a
// plan, creates new variables with their first values, and loads the plan. Later calls only launch the plan.
#include "karez/api/compile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "karez/api/namespace.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/compiled_function.h"
#include "karez/api/state/fixed_layouts.h"
#include "karez/api/state/local_part.h"
#include "karez/api/state/program_compilation.h"
#include "karez/api/state/session_plan.h"
#include "karez/api/state/slow_compilation.h"
#include "karez/api/state/stored_parts.h"
#include "karez/api/state/variable_initialisation.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/index_checks.h"
#include "karez/api/trace/trace.h"
#include "karez/base/glob.h"
#include "karez/base/interrupt.h"
#include "karez/base/log.h"
#include "karez/base/text.h"
#include "karez/passes/compile.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/logical/place.h"
#include "karez/passes/sharding/explain.h"
#include "karez/passes/sharding/layout_rules.h"
#include "karez/passes/sharding/shard.h"
#include "karez/report/plan_report.h"
#include "karez/report/predictor.h"
#include "karez/runtime/launch/failure.h"
#include "karez/sbp/effective_layout.h"

namespace karez {
namespace {

// Returns whether the function runs an expression program. The world owns such functions, so they must not keep the
// world alive: their pointer to the world does not own it.
bool is_expression(const DeviceMesh& mesh) { return mesh.world.use_count() == 0; }

bool is_unbatched(const FunctionOptions& options, std::size_t argument) {
  return std::find(options.unbatched.begin(), options.unbatched.end(), static_cast<int>(argument)) !=
         options.unbatched.end();
}
}  // namespace

Function::Function(DeviceMesh mesh, int arguments, Body body, FunctionOptions options, SourceLine where)
    : state_(std::make_shared<State>()) {
  require(mesh.world != nullptr, "compile requires a mesh made by World::mesh");
  require(options.microbatches >= 1, "compile: microbatches is ", options.microbatches, "; it must be at least 1");
  for (const int argument : options.unbatched)
    if (argument < 0 || (arguments >= 0 && argument >= arguments))
      fail("compile: unbatched contains argument ", argument,
           arguments < 0 ? "; it must be at least 0" : cat(", but the number of arguments is ", arguments));
  require(options.keep >= 1, "compile: keep is ", options.keep, "; it must be at least 1");
  const LossScale& scale = options.loss_scale;
  require(scale.growth >= 1 && std::isfinite(scale.growth) && scale.backoff > 0 && scale.backoff <= 1 &&
              scale.interval >= 1,
          "compile: the loss scale has growth ", scale.growth, ", interval ", scale.interval, " and backoff ",
          scale.backoff, "; growth must be at least 1, interval at least 1, and backoff above 0 and at most 1");
  amp_of(options);  // throws if amp is invalid
  note_widened_amp(*mesh.world, options);
  placements_of(mesh, options);                                          // throws if placements are invalid
  for (const std::string& modules : options.remat) base::Glob{modules};  // throws if a glob is invalid
  *state_ = {std::move(mesh), arguments, std::move(body), std::move(options), where, std::make_shared<Plans>()};
  state_->plans->trace_owner.function = state_->options.name;
}

Function Function::with_body(Body body, std::vector<int> unbatched) const {
  Function out(*this);
  out.state_ = std::make_shared<State>(*state_);
  out.state_->body = std::move(body);
  out.state_->options.unbatched = std::move(unbatched);
  out.state_->number = ++state_->plans->bodies;
  return out;
}

Future Function::call(std::vector<Argument> arguments) const {
  State& s = *state_;
  WorldState& world = *s.mesh.world;
  require(s.arguments < 0 || static_cast<int>(arguments.size()) == s.arguments, "function '", s.options.name,
          "' expects ", s.arguments, s.arguments == 1 ? " argument, got " : " arguments, got ", arguments.size());
  if (!is_expression(s.mesh)) world.deferred_reads.run();
  std::vector<ArgumentSignature> signature;
  for (auto& argument : arguments) signature.push_back(argument_signature(s, argument, signature.size()));
  world.session.wait_for_capacity();  // without the world's lock, so that other threads can still read variables
  try {
    if (auto future = launch_compiled(s, signature, arguments)) return *future;
    // The body runs without the world's lock, because it may read and write variables and call functions.
    TraceLock lock(world.traces, s.plans->trace_owner);
    while (true) {
      if (auto future = launch_compiled(s, signature, arguments)) return *future;  // another thread has compiled it
      plan_for(s, signature);
    }
  } catch (const Error& error) { throw explain_parts(error, arguments); }
}

Argument::Argument(const Tensor& tensor, SourceLine where) {
  if (tensor.lazy != nullptr && tensor.lazy->host.valid()) {
    *this = host_argument(*tensor.lazy);
  } else {
    on_mesh = tensor.array(where);
  }
}

void Function::compile(const std::vector<TensorType>& types) const {
  State& s = *state_;
  require(s.arguments < 0 || static_cast<int>(types.size()) == s.arguments, "function '", s.options.name, "' expects ",
          s.arguments, s.arguments == 1 ? " argument, got " : " arguments, got ", types.size());
  s.mesh.world->deferred_reads.run();  // planning may relocate variables
  TraceLock lock(s.mesh.world->traces, s.plans->trace_owner);
  std::vector<ArgumentSignature> signature;
  for (const TensorType& type : types) signature.push_back({type});
  plan_for(s, signature);
}

// Returns the number of rows of the batch; 0 if there is no batch.
std::int64_t Function::batch_of(const FunctionOptions& options, const std::vector<ArgumentSignature>& signature) {
  for (std::size_t i = 0; i < signature.size(); ++i)
    if (signature[i].type.rank() > 0 && !is_unbatched(options, i)) return signature[i].type.shape[0];
  return 0;
}

// Requires the TraceLock.
void Function::plan_for(State& s, const std::vector<ArgumentSignature>& signature) {
  WorldState& world = *s.mesh.world;
  SlowCompilation slow(cat("function '", s.options.name, "' (", karez::print(s.where), ")"));
  auto stored = [&world](const Parameter& parameter) -> std::optional<Mesh> {
    WorldLock lock(world);
    auto match = world.variables.find(parameter);
    if (match == world.variables.by_key.end() || match->second.provisional) return {};
    return match->second.mesh;
  };
  const auto scaling = [&]() -> std::optional<std::pair<LossScaleState, LossScale>> {
    if (s.options.amp != "f16") return {};
    WorldLock lock(world);
    return std::pair(world.variables.loss_scale(own_mesh(s.mesh, s.options)), s.options.loss_scale);
  };
  Trace trace(world.tables.ops, {.name = s.options.name,
                                 .mesh = own_mesh(s.mesh, s.options),
                                 .placements = placements_of(s.mesh, s.options),
                                 .stored = stored,
                                 .train = s.options.train,
                                 .counter = world.counter,
                                 .scaling = scaling()});
  trace.remat = s.options.remat;
  std::map<std::string, int> parts;
  {
    Trace::Scope scope(trace);
    std::vector<Tensor> inputs;
    trace.builder.where = karez::print(s.where);
    for (std::size_t i = 0; i < signature.size(); ++i) {
      const auto& [type, spec, prefetched, split_axes] = signature[i];
      const std::string name = cat("arg", i);
      inputs.push_back(spec         ? trace.array_input(name, type, spec->mesh, spec->layout)
                       : prefetched ? trace.prefetched_input(name, type)
                                    : trace.input(name, type));
      if (split_axes) parts[name] = *split_axes;
      if (s.options.microbatches == 1 || type.rank() == 0) continue;
      graph::Node& node = trace.graph.node(trace.graph.value(inputs.back().id).producer);
      if (node.op->role != graph::Role::source) continue;  // an array that is first transferred to this function's mesh
      if (is_unbatched(s.options, i)) node.attrs.set("unbatched", true);
      else if (type.shape[0] == batch_of(s.options, signature))
        node.attrs.set("parts", std::int64_t{s.options.microbatches});
    }
    trace.builder.where.clear();
    trace.finish(s.body(inputs));
  }
  bool has_effect = !trace.graph.outputs.empty();
  for (const graph::Variable& variable : trace.graph.variables) has_effect |= variable.updated.valid();
  require(has_effect, "function '", s.options.name, "' (", karez::print(s.where),
          ") returns no tensor and updates nothing: there is nothing to run");
  if (!is_expression(s.mesh)) relocate_variables(world, trace, s.where);
  slow.set_nodes(trace.graph.nodes.size());
  const InterruptScope interrupt_scope([&] {
    slow.check();
    world.session.check_open();
    if (world.options.while_waiting) world.options.while_waiting();
  });
  WorldLock lock(world);
  auto& list = s.plans->list;
  std::erase_if(list, [&](const auto& c) { return c->generation != world.generation; });
  for (const auto& c : list)
    if (c->data_cores == world.data_cores)
      std::erase_if(c->bodies, [&](std::uint64_t body) { return body == s.number && c->signature == signature; });
  std::erase_if(list, [](const auto& c) { return c->bodies.empty(); });
  trace.graph = place(std::move(trace.graph), world.tables.ops);
  set_part_layouts(trace.graph, parts, s.options.microbatches,
                   cat("function '", s.options.name, "' (", karez::print(s.where), ")"));
  for (const auto& c : list)
    if (c->signature == signature && c->data_cores == world.data_cores && same_program(*c, trace))
      return c->bodies.push_back(s.number);
  auto compiled = compile_traced(s, signature, trace);
  world.data_threads->restart_measurement();
  auto format = [&](const std::vector<ArgumentSignature>& arguments) {
    return cat("(",
               join(arguments, ", ",
                    [&](const ArgumentSignature& t) {
                      return t.spec ? sbp::print(t.type, t.spec->mesh, t.spec->layout)
                                    : cat(tensor::print(t.type), t.prefetched   ? " of a source"
                                                                 : t.split_axes ? " in parts"
                                                                                : "");
                    }),
               ")");
  };
  const auto has_this_body = [&](const auto& c) {
    return std::find(c->bodies.begin(), c->bodies.end(), s.number) != c->bodies.end();
  };
  const auto previous = std::find_if(list.rbegin(), list.rend(), has_this_body);
  if (previous != list.rend() && (*previous)->signature != signature &&
      !std::exchange(s.plans->recompile_reported, true))
    note(LogLevel::warning, karez::print(s.where), ": function '", s.options.name,
         "' is compiled again: it was called with ", format(signature), ", previously with ",
         format((*previous)->signature), "; this warning appears once, and ", s.options.keep, " signatures are kept");
  list.push_back(std::move(compiled));
  if (static_cast<int>(list.size()) > s.options.keep) list.erase(list.begin());
}

std::optional<Future> Function::launch_compiled(State& s, const std::vector<ArgumentSignature>& signature,
                                                const std::vector<Argument>& arguments) {
  WorldState& world = *s.mesh.world;
  WorldLock lock(world);
  auto& list = s.plans->list;
  world.update_data_cores();
  if (world.options.data_cores == data::automatic && !world.data_threads->tries_cores() && !is_expression(s.mesh))
    std::erase_if(list, [&](const auto& c) { return c->data_cores != world.data_cores; });  // they need memory
  auto match = std::find_if(list.begin(), list.end(), [&](const auto& c) {
    return c->signature == signature && c->generation == world.generation &&
           (c->data_cores == world.data_cores || is_expression(s.mesh)) &&
           std::find(c->bodies.begin(), c->bodies.end(), s.number) != c->bodies.end();
  });
  if (match == list.end()) return std::nullopt;
  if (!(*match)->ready && !load(s, **match)) {
    list.erase(match);  // variables are now on other meshes or in other layouts than the plan requires
    return std::nullopt;
  }
  std::rotate(match, match + 1, list.end());
  return launch(s, *list.back(), arguments);
}

bool Function::same_program(const CompiledProgram& c, const Trace& trace) {
  const auto same_parameter = [](const Parameter::Identity& a, const Parameter& b) {
    const Parameter::Identity other = b.identity();
    return !a.owner_before(other) && !other.owner_before(a);
  };
  const auto same_scalar = [](const HostScalar& a, const HostScalar& b) {
    return a.name == b.name && a.dtype == b.dtype && a.owner == b.owner;
  };
  return std::equal(c.parameters.begin(), c.parameters.end(), trace.parameters().begin(), trace.parameters().end(),
                    same_parameter) &&
         std::equal(c.scalars.begin(), c.scalars.end(), trace.host_scalars().begin(), trace.host_scalars().end(),
                    same_scalar) &&
         c.gradients == gradient_outputs(trace) && print(c.graph) == print(trace.graph);
}

std::shared_ptr<Function::CompiledProgram> Function::compile_traced(State& s,
                                                                    const std::vector<ArgumentSignature>& signature,
                                                                    Trace& trace) {
  WorldState& world = *s.mesh.world;
  auto out = std::make_shared<CompiledProgram>();
  out->signature = signature;
  out->generation = world.generation, out->data_cores = world.data_cores;
  out->bodies = {s.number};
  for (const Parameter& parameter : trace.parameters()) out->parameters.push_back(parameter.identity());
  out->scalars = trace.host_scalars();
  out->graph = trace.graph;
  {
    Graph live_graph = trace.graph;
    remove_dead(live_graph);  // an invalid index that is not used is not an error
    out->index_checks = index_checks(live_graph);
  }
  std::vector<std::string> names;  // the names of the variables in the program, by parameter
  for (const Variable& variable : trace.graph.variables) names.push_back(variable.name);
  fix_layouts(world, trace, trace.graph, s.options.rules);
  out->batch = batch_of(s.options, signature);
  out->gradients = gradient_outputs(trace);
  world.data_bytes = world.data_threads->data_bytes(world.options.in_flight);
  if (world.common_settings.memory > 0)
    world.data_bytes = agree_on_maximum(
        world, world.data_bytes,
        cat("the bytes of data sets for a plan of function '", s.options.name, "' (", karez::print(s.where), ")"));
  Compilation c = make_compilation(world, std::move(trace.graph), s.options, out->batch, trace.remat);
  c.options.predict = !is_expression(s.mesh);  // no report of an expression shows its seconds
  fix_gradient_layouts(world, out->gradients, c);
  out->planner_input = c.graph;
  c = compile_program(world, std::move(c));
  agree_on_program(world, c.plan.program_hash,
                   cat("a plan of function '", s.options.name, "' (", karez::print(s.where), ")"),
                   [&] { return print(out->graph) + print(c.graph); });
  for (std::size_t i = 0; i < names.size(); ++i) {
    // Looked up by name, because passes may remove an unused variable.
    auto variable = std::find_if(c.graph.variables.begin(), c.graph.variables.end(),
                                 [&](const Variable& v) { return v.name == names[i]; });
    if (variable == c.graph.variables.end()) continue;
    require(variable->stored.has_value(), "the planner left variable '", trace.parameters()[i].name(),
            "' without a layout");
    // Keep the requested layout, even if the stored one differs but is equivalent (sbp::effective_layout).
    const auto& requested = out->planner_input.variables[i].stored;
    out->variables.push_back({trace.parameters()[i], names[i], c.graph.meshes[static_cast<std::size_t>(variable->mesh)],
                              requested.value_or(*variable->stored), out->graph.variables[i].updated.valid()});
  }
  out->row_groups = row_groups(c.graph);
  std::vector<ArraySpec> results;
  for (std::size_t i = 0; i < c.graph.outputs.size(); ++i) {
    const ValueId value = c.graph.outputs[i].value;
    const Graph& requested =
        is_planned(out->planner_input, out->planner_input.outputs[i]) ? c.graph : out->planner_input;
    results.push_back({c.graph.type(value), c.graph.mesh(value), layout_of(requested, requested.outputs[i])});
  }
  out->results = std::make_shared<Outputs>(Outputs{std::move(results), {}});
  out->plan = std::move(c.plan);
  out->cost = c.cost;
  out->report = std::move(c.shard_report);
  out->memory_note = std::move(c.slot_assignment.memory_note);
  out->passes = std::move(c.passes);
  return out;
}

std::vector<PlanInput> Function::plan_inputs(const CompiledProgram& c, const std::vector<std::string>& names) {
  std::map<std::string, PlanInput> known;
  for (std::size_t i = 0; i < c.signature.size(); ++i) known[cat("arg", i)].argument = i;
  for (std::size_t i = 0; i < c.scalars.size(); ++i) known[c.scalars[i].name] = {.scalar = i};
  for (const auto& [name, groups] : c.row_groups) known[name].row_groups = groups;
  std::vector<PlanInput> inputs;
  for (const std::string& name : names) inputs.push_back(known.at(name));
  return inputs;
}

// Creates the program's variables with their initial values and loads the plan into the session. Returns false if,
// since planning, another function has stored one of these variables with a different layout.
bool Function::load(State& s, CompiledProgram& c) {
  WorldState& world = *s.mesh.world;
  VariableNames names;
  std::vector<NewVariable> new_variables;
  for (const PlannedVariable& v : c.variables) {
    if (auto existing = world.variables.find(v.parameter); existing != world.variables.by_key.end()) {
      if (existing->second.mesh != v.mesh ||
          effective_layout(v.mesh, existing->second.layout) != effective_layout(v.mesh, v.layout))
        return false;
      names[v.name] = session_name(existing->first);
      continue;
    }
    VariableKey key = world.variables.free_key(v.parameter);
    while (std::any_of(new_variables.begin(), new_variables.end(),
                       [&](const NewVariable& other) { return other.key == key; }))
      ++key.second;
    names[v.name] = session_name(key);
    const auto& relocated = world.variables.relocated_values;
    const auto value =
        std::find_if(relocated.begin(), relocated.end(), [&](const auto& item) { return v.parameter == item.first; });
    new_variables.push_back(
        {v.parameter, key, v.mesh, v.layout, value == relocated.end() ? std::nullopt : std::optional(value->second)});
  }
  initialise(s.mesh.world, new_variables);
  for (const PlannedVariable& v : c.variables) {
    StoredVariable& stored = world.variables.by_key.at(world.variables.find(v.parameter)->first);
    const bool is_new = std::any_of(new_variables.begin(), new_variables.end(),
                                    [&](const NewVariable& variable) { return variable.parameter == v.parameter; });
    stored.provisional = is_expression(s.mesh) && (is_new || stored.provisional);
  }
  agree_on_links(world, c.plan, cat("the links of function '", s.options.name, "' (", karez::print(s.where), ")"));
  Plan plan = c.plan;  // a copy, so that c.plan keeps the program's names
  if (!plan.actors.empty())
    c.session_plan = std::make_unique<SessionPlan>(s.mesh.world, rename_variables(plan, names), s.options.check_nan);
  if (c.session_plan != nullptr) c.plan_inputs = plan_inputs(c, world.session.input_names(c.session_plan->number()));
  return c.ready = true;
}

}  // namespace karez
