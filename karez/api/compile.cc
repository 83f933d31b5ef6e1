// compile: traces, fixes stored layouts, plans, creates new variables with their first values, and loads the plan;
// later calls only launch.
#include "karez/api/compile.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
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
#include "karez/api/state/stored_parts.h"
#include "karez/api/state/variable_initialisation.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/index_checks.h"
#include "karez/api/trace/trace.h"
#include "karez/base/glob.h"
#include "karez/base/interrupt.h"
#include "karez/base/log.h"
#include "karez/base/text.h"
#include "karez/page/page.h"
#include "karez/page/predictor.h"
#include "karez/passes/compile.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/logical/place.h"
#include "karez/passes/sharding/explain.h"
#include "karez/passes/sharding/layout_rules.h"
#include "karez/passes/sharding/shard.h"
#include "karez/runtime/failure.h"
#include "karez/sbp/effective_layout.h"

namespace karez {
Function::Function(DeviceMesh mesh, int arguments, Body body, FunctionOptions options, SourceLine where)
    : state_(std::make_shared<State>()) {
  require(mesh.world != nullptr, "compile needs a mesh that a World has made");
  require(options.microbatches >= 1, "compile: microbatches is ", options.microbatches, "; it must be at least 1");
  for (const int argument : options.unbatched)
    require(argument >= 0 && (arguments < 0 || argument < arguments), "compile: unbatched contains argument ", argument,
            ", but the number of arguments is ", arguments);
  require(options.keep >= 1, "compile: keep is ", options.keep, "; it must be at least 1");
  const LossScale& scale = options.loss_scale;
  require(scale.growth >= 1 && std::isfinite(scale.growth) && scale.backoff > 0 && scale.backoff <= 1 &&
              scale.interval >= 1,
          "compile: the loss scale ", "has growth ", scale.growth, ", interval ", scale.interval, " and backoff ",
          scale.backoff, "; growth must be at least 1, interval at least 1, and backoff above 0 and at most 1");
  amp_of(options);  // throws if amp is invalid
  note_widened_amp(*mesh.world, options);
  placements_of(mesh, options);                                          // throws if they are invalid
  for (const std::string& modules : options.remat) base::Glob{modules};  // the same
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
          "' takes ", s.arguments, " arguments, not ", arguments.size());
  std::vector<ArgumentSignature> signature;
  for (auto& argument : arguments) signature.push_back(argument_signature(s, argument, signature.size()));
  world.session.wait_for_capacity();  // without the lock, so that other threads can still read
  try {
    if (auto launched = launch_compiled(s, signature, arguments)) return *launched;
    TraceLock turn(world, s.plans->trace_owner);  // the body runs without the world's lock: it may read, write and call
    while (true) {
      if (auto launched = launch_compiled(s, signature, arguments)) return *launched;  // another thread has compiled it
      plan_for(s, signature);
    }
  } catch (const Error& error) { throw explain_parts(error, arguments); }
}

// An argument's part of the signature; copies the bytes of a host array.
Function::ArgumentSignature Function::argument_signature(const State& s, Argument& argument, std::size_t number) {
  WorldState& world = *s.mesh.world;
  if (argument.on_mesh.valid()) {
    const ArrayValue& array = ArrayValue::of(argument.on_mesh);
    require(array.living_world().get() == &world, "argument ", number, " of function '", s.options.name,
            "' is an array of another world; pass the host array that read() returns");
    return {array.spec->type, *array.spec};
  }
  const bool ahead = !argument.array.valid();
  if (!ahead) argument.feed = {argument.donated ? array_source(argument.array) : world.copies.copy(argument.array), 0};
  require(argument.feed.source != nullptr, "argument ", number, " of function '", s.options.name, "' has no source");
  if (!argument.part) return {argument.feed.source->type(), {}, ahead};
  const std::string who =
      cat("argument ", number, " of function '", s.options.name, "' (", karez::print(s.where), "), a part by local(),");
  const LocalPart part =
      local_part(argument.array.type(), argument.rows, meshes_of(s.mesh, s.options), world.ranks.rank(), who);
  argument.feed.source = part_source(argument.feed.source, part);
  return {part.whole, {}, false, part.axes};
}

Argument::Argument(const Tensor& outside, SourceLine where) {
  if (outside.lazy != nullptr && outside.lazy->host.valid()) {
    array = outside.lazy->host;
    donated = true;  // its bytes are never written
  } else {
    on_mesh = outside.array(where);
  }
}

void Function::compile(const std::vector<TensorType>& types) const {
  State& s = *state_;
  require(s.arguments < 0 || static_cast<int>(types.size()) == s.arguments, "function '", s.options.name, "' takes ",
          s.arguments, " arguments, not ", types.size());
  TraceLock turn(*s.mesh.world, s.plans->trace_owner);
  std::vector<ArgumentSignature> signature;
  for (const TensorType& type : types) signature.push_back({type});
  plan_for(s, signature);
}

namespace {

// Whether the function is an expression program; the world owns these, so they do not keep the world alive.
bool is_expression(const DeviceMesh& mesh) { return mesh.world.use_count() == 0; }

bool is_unbatched(const FunctionOptions& options, std::size_t argument) {
  return std::find(options.unbatched.begin(), options.unbatched.end(), static_cast<int>(argument)) !=
         options.unbatched.end();
}
}  // namespace

// The number of rows of the batch; 0 if there is none.
std::int64_t Function::batch_of(const FunctionOptions& options, const std::vector<ArgumentSignature>& signature) {
  for (std::size_t i = 0; i < signature.size(); ++i)
    if (signature[i].type.rank() > 0 && !is_unbatched(options, i)) return signature[i].type.shape[0];
  return 0;
}

// Requires the TraceLock.
void Function::plan_for(State& s, const std::vector<ArgumentSignature>& signature) {
  WorldState& world = *s.mesh.world;
  auto stored = [&world](const Parameter& parameter) -> std::optional<Mesh> {
    WorldLock lock(world);
    auto found = world.find(parameter);
    if (found == world.variables.end() || found->second.provisional) return {};
    return found->second.mesh;
  };
  const auto scaling = [&]() -> std::optional<std::pair<LossScaleState, LossScale>> {
    if (s.options.amp != "f16") return {};
    WorldLock lock(world);
    return std::pair(world.loss_scale(own_mesh(s.mesh, s.options)), s.options.loss_scale);
  };
  Trace trace(world.ops, {.name = s.options.name,
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
      const auto& [type, spec, ahead, part] = signature[i];
      const std::string name = cat("arg", i);
      inputs.push_back(spec    ? trace.array_input(name, type, spec->mesh, spec->layout)
                       : ahead ? trace.prefetched_input(name, type)
                               : trace.input(name, type));
      if (part) parts[name] = *part;
      if (s.options.microbatches == 1 || type.rank() == 0) continue;
      graph::Node& node = trace.graph.node(trace.graph.value(inputs.back().id).producer);
      if (node.op->role != graph::Role::source) continue;  // it is transferred to this function's mesh first
      if (is_unbatched(s.options, i)) node.attrs.set("unbatched", true);
      else if (type.shape[0] == batch_of(s.options, signature))
        node.attrs.set("parts", std::int64_t{s.options.microbatches});
    }
    trace.builder.where.clear();
    trace.finish(s.body(inputs));
  }
  bool runs = !trace.graph.outputs.empty();
  for (const graph::Variable& variable : trace.graph.variables) runs |= variable.updated.valid();
  require(runs, "function '", s.options.name, "' (", karez::print(s.where),
          ") returns no tensor and updates nothing: there is nothing to run");
  if (!is_expression(s.mesh)) relocate_variables(world, trace, s.where);
  const InterruptScope stoppable([&world] {
    world.session.check_open();
    if (world.options.while_waiting) world.options.while_waiting();
  });
  WorldLock lock(world);
  auto& list = s.plans->list;
  std::erase_if(list, [&](const auto& c) { return c->generation != world.generation; });
  for (const auto& c : list)
    std::erase_if(c->bodies, [&](std::uint64_t body) { return body == s.number && c->signature == signature; });
  std::erase_if(list, [](const auto& c) { return c->bodies.empty(); });
  trace.graph = place(std::move(trace.graph), world.ops);
  set_part_layouts(trace.graph, parts, s.options.microbatches,
                   cat("function '", s.options.name, "' (", karez::print(s.where), ")"));
  for (const auto& c : list)
    if (c->signature == signature && same_program(*c, trace)) return c->bodies.push_back(s.number);
  auto made = compile_traced(s, signature, trace);
  auto text = [&](const std::vector<ArgumentSignature>& of) {
    return cat("(",
               join(of, ", ",
                    [&](const ArgumentSignature& t) {
                      return t.spec ? sbp::print(t.type, t.spec->mesh, t.spec->layout)
                                    : cat(tensor::print(t.type), t.ahead        ? " of a source"
                                                                 : t.split_axes ? " in parts"
                                                                                : "");
                    }),
               ")");
  };
  const auto of_this = [&](const auto& c) {
    return std::find(c->bodies.begin(), c->bodies.end(), s.number) != c->bodies.end();
  };
  const auto before = std::find_if(list.rbegin(), list.rend(), of_this);
  if (before != list.rend() && !std::exchange(s.plans->recompile_reported, true))
    note(LogLevel::warning, karez::print(s.where), ": function '", s.options.name,
         "' is compiled again: it was called with ", text(signature), ", before with ", text((*before)->signature),
         "; this warning appears once, and ", s.options.keep, " signatures are kept");
  list.push_back(std::move(made));
  if (static_cast<int>(list.size()) > s.options.keep) list.erase(list.begin());
}

std::optional<Future> Function::launch_compiled(State& s, const std::vector<ArgumentSignature>& signature,
                                                const std::vector<Argument>& arguments) {
  WorldLock lock(*s.mesh.world);
  auto& list = s.plans->list;
  auto found = std::find_if(list.begin(), list.end(), [&](const auto& c) {
    return c->signature == signature && c->generation == s.mesh.world->generation &&
           std::find(c->bodies.begin(), c->bodies.end(), s.number) != c->bodies.end();
  });
  if (found == list.end()) return std::nullopt;
  if (!(*found)->ready && !load(s, **found)) {
    list.erase(found);  // it needs variables on other meshes or in other layouts than the current ones
    return std::nullopt;
  }
  std::rotate(found, found + 1, list.end());
  return launch(s, *list.back(), arguments);
}

// With several ranks: begins the call's op, by which ranks compare their calls and arguments.
std::uint64_t Function::begin_call(State& s, const CompiledProgram& c, const std::vector<Argument>& arguments) {
  constexpr int calls_in_full = 3;
  WorldState& world = *s.mesh.world;
  const std::string who = cat("a call of function '", s.options.name, "' (", karez::print(s.where), ")");
  const InputCheck check = world.options.check_inputs;
  const int number = ++c.calls;
  runtime::InputHashes hashes;
  if (check != InputCheck::off) {
    CallInputs inputs{arguments, {}};
    for (const auto& scalar : c.scalars) inputs.numbers.emplace_back(scalar.name, scalar.value());
    if (check == InputCheck::full || number <= calls_in_full) agree_on_inputs(world, who, number, inputs);
    else hashes = sampled_hashes(inputs, static_cast<std::uint64_t>(number) * InputHashes::capacity);
  }
  return world.session.begin_op({.hash = c.plan.program_hash, .what = who, .inputs = hashes});
}

Future Function::launch(State& s, const CompiledProgram& c, const std::vector<Argument>& arguments) {
  Session& session = s.mesh.world->session;
  const bool alone = s.mesh.world->ranks.alone();
  try {
    for (const IndexCheck& check : c.indices) check.validate(arguments, alone);
  } catch (const Error&) {  // All ranks find it, and this call begins on none of them; if only one rank finds it, their
                            // arguments differ, which all ranks report.
    session.begin_op({.hash = c.plan.program_hash,
                      .what = cat("a call of '", s.options.name, "' with an index outside its table"),
                      .is_barrier = true});
    throw;
  }
  const std::uint64_t op = alone ? 0 : begin_call(s, c, arguments);
  if (c.session_plan == nullptr)
    return Future(std::make_shared<const Future::State>(
        Future::State{s.mesh.world->shared_from_this(), session.launch_remote(op), c.results}));
  try {
    return launch_with_op(s, c, arguments, op);
  } catch (...) {
    if (op != 0) session.fail_ranks(runtime::current_error());  // the other ranks wait for this rank
    throw;
  }
}

Future Function::launch_with_op(State& s, const CompiledProgram& c, const std::vector<Argument>& arguments,
                                std::uint64_t op) {
  auto wanted = [&](const std::string& input) {
    return std::find(c.inputs.begin(), c.inputs.end(), input) != c.inputs.end();
  };
  Feeds feeds;
  Results arrays;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = cat("arg", i);
    if (!wanted(name)) continue;
    if (arguments[i].on_mesh.valid())
      arrays.emplace_back(std::move(name), *ArrayValue::of(arguments[i].on_mesh).result);
    else if (const auto in = c.groups.find(name); in != c.groups.end())
      feeds.emplace_back(name, group_rows(arguments[i].feed, in->second, s.options.microbatches));
    else feeds.emplace_back(std::move(name), arguments[i].feed);
  }
  for (const auto& scalar : c.scalars) {
    if (!wanted(scalar.name)) continue;
    HostArray value(TensorType{scalar.dtype, {}});
    with_type(scalar.dtype, [&]<class T>() { value.data<T>()[0] = static_cast<T>(scalar.value()); });
    feeds.emplace_back(scalar.name, Feed{array_source(value), 0});
  }
  Launch launch = s.mesh.world->session.launch(c.session_plan->number(), feeds, arrays, op);
  for (std::size_t i = c.results->result_indices.size(); i < c.results->specs.size(); ++i)
    c.results->result_indices.push_back(launch.place_of(cat("out", i)));
  return Future(std::make_shared<const Future::State>(
      Future::State{s.mesh.world->shared_from_this(), std::move(launch), c.results}));
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
         print(c.graph) == print(trace.graph);
}

std::shared_ptr<Function::CompiledProgram> Function::compile_traced(State& s,
                                                                    const std::vector<ArgumentSignature>& signature,
                                                                    Trace& trace) {
  WorldState& world = *s.mesh.world;
  auto out = std::make_shared<CompiledProgram>();
  out->signature = signature;
  out->generation = world.generation;
  out->bodies = {s.number};
  for (const Parameter& parameter : trace.parameters()) out->parameters.push_back(parameter.identity());
  out->scalars = trace.host_scalars();
  out->graph = trace.graph;
  {
    Graph live = trace.graph;
    remove_dead(live);  // an unused index is not an error
    out->indices = index_checks(live);
  }
  std::vector<std::string> names;  // in the program, by parameter
  for (const Variable& variable : trace.graph.variables) names.push_back(variable.name);
  fix_layouts(world, trace, trace.graph, s.options.rules);
  out->planner_input = trace.graph;
  out->batch = batch_of(s.options, signature);
  Compilation c =
      compile_program(world, make_compilation(world, std::move(trace.graph), s.options, out->batch, trace.remat));
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
                              requested.value_or(*variable->stored)});
  }
  for (const Actor& actor : c.plan.actors)
    if (actor.body == BodyKind::input) out->inputs.push_back(actor.binding);
  out->groups = row_groups(c.graph);
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

// Creates the program's variables with their initial values and loads the plan into the session. Returns false if,
// since planning, another function has stored one of these variables with a different layout.
bool Function::load(State& s, CompiledProgram& c) {
  WorldState& world = *s.mesh.world;
  VariableNames names;
  std::vector<NewVariable> fresh;
  for (const PlannedVariable& v : c.variables) {
    if (auto known = world.find(v.parameter); known != world.variables.end()) {
      if (known->second.mesh != v.mesh ||
          effective_layout(v.mesh, known->second.layout) != effective_layout(v.mesh, v.layout))
        return false;
      names[v.name] = key_of(known->first.first, known->first.second);
      continue;
    }
    WorldState::Key key = world.free_key(v.parameter);
    while (std::any_of(fresh.begin(), fresh.end(), [&](const NewVariable& other) { return other.key == key; }))
      ++key.second;
    names[v.name] = key_of(key.first, key.second);
    const auto held = std::find_if(world.relocated_values.begin(), world.relocated_values.end(),
                                   [&](const auto& item) { return v.parameter == item.first; });
    fresh.push_back({v.parameter, key, v.mesh, v.layout,
                     held == world.relocated_values.end() ? std::nullopt : std::optional(held->second)});
  }
  initialise(s.mesh.world, fresh);
  for (const PlannedVariable& v : c.variables) {
    StoredVariable& stored = world.variables.at(world.find(v.parameter)->first);
    const bool born =
        std::any_of(fresh.begin(), fresh.end(), [&](const NewVariable& one) { return one.parameter == v.parameter; });
    stored.provisional = is_expression(s.mesh) && (born || stored.provisional);
  }
  agree_on_links(world, c.plan, cat("the links of function '", s.options.name, "' (", karez::print(s.where), ")"));
  Plan plan = c.plan;  // a copy, so that c.plan keeps the program's names
  if (!plan.actors.empty())
    c.session_plan = std::make_unique<SessionPlan>(s.mesh.world, rename_variables(plan, names), s.options.check_nan);
  return c.ready = true;
}

namespace {

// Outside of a trace: the argument of a call for this operand.
Argument argument_of(const Term& operand) {
  if (operand.is_number()) {
    Argument out((HostArray()));
    std::visit(
        [&](const auto& value) {
          if constexpr (Arithmetic<std::remove_cvref_t<decltype(value)>>) out.array = Tensor(value).lazy->host;
        },
        operand.value);
    return out;
  }
  const auto* tensor = std::get_if<Tensor>(&operand.value);
  if (tensor == nullptr)
    return at_line(operand.where, [&](Trace& t) { return t.tensor(t.value(operand)); }).array(operand.where);
  if (tensor->lazy == nullptr || !tensor->lazy->host.valid()) return tensor->array(operand.where);
  Argument out(tensor->lazy->host);
  out.donated = true;  // its bytes are never written
  return out;
}

}  // namespace

Tensors Function::inlined(std::vector<Term> operands) const {
  State& s = *state_;
  if (Trace::open() == nullptr) {
    std::vector<Argument> arguments;
    for (const Term& operand : operands) arguments.push_back(argument_of(operand));
    const Future future = call(std::move(arguments));
    Tensors out;
    for (std::size_t i = 0; i < future.size(); ++i) out.list.emplace_back(future.value(i));
    return out;
  }
  Trace& trace = Trace::current();
  if (trace.expression != nullptr)
    trace.expression->place_on(s.mesh.world->shared_from_this(), own_mesh(s.mesh, s.options));
  const std::string who = cat("function '", s.options.name, "' (", karez::print(s.where), "), called with tensors");
  require(s.arguments < 0 || static_cast<int>(operands.size()) == s.arguments, who, ", takes ", s.arguments,
          " arguments, not ", operands.size());
  require(&trace.builder.ops() == &s.mesh.world->ops, who,
          ", belongs to a different world from the program that is being traced");
  const Mesh own = own_mesh(s.mesh, s.options);
  require(trace.mesh() == own, who, ", is compiled for ", sbp::print(own),
          ", but the program that is being traced is for ", sbp::print(trace.mesh()));
  trace.remat.insert(trace.remat.end(), s.options.remat.begin(), s.options.remat.end());
  TraceLock turn(*s.mesh.world, s.plans->trace_owner);
  std::vector<Tensor> inputs;
  for (const auto& operand : operands) inputs.push_back(trace.tensor(trace.value(operand, trace.dtype_of(operand))));
  Tensors out;
  const auto around = std::exchange(trace.paths, {});
  auto touched = trace.inlined(s.options.train, placements_of(s.mesh, s.options), [&] { out.list = s.body(inputs); });
  // The rules match only this body's parameters, by its paths.
  apply_rules_to(trace.graph, trace, touched, s.options.rules);
  trace.paths = around;
  for (const auto& tensor : out.list) trace.value(Term(tensor));  // a tensor of another trace is an error here
  return out;
}

}  // namespace karez
