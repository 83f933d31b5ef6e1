// compile: trace, fix stored layouts, plan, give new variables their first values, load; later calls only launch.
#include "api/compile.h"

#include <algorithm>
#include <map>

#include "api/inside.h"
#include "api/world_state.h"
#include "base/log.h"
#include "base/text.h"

namespace karez {

namespace {

// A plan in a world's session for as long as this lives. A launch in flight still ends as it should.
class PlanInSession {
 public:
  PlanInSession(std::shared_ptr<WorldState> world, const Plan& plan) : world_(std::move(world)), number_(world_->session.load(plan)) {}
  ~PlanInSession() { world_->session.unload(number_); }
  PlanInSession(const PlanInSession&) = delete;
  PlanInSession& operator=(const PlanInSession&) = delete;
  int number() const { return number_; }

 private:
  std::shared_ptr<WorldState> world_;
  int number_;
};

}  // namespace

struct Function::Compiled {
  std::vector<TensorType> types;
  Graph graph;  // as traced
  Plan plan;
  std::string report;
  std::vector<PassTime> passes;
  std::vector<HostScalar> scalars;
  std::unique_ptr<PlanInSession> loaded;
  int generation = 0;
};

struct Function::State {
  DeviceMesh mesh;
  int arguments = 0;
  Body body;
  FunctionOptions options;
  SourceLine where;
  std::vector<std::unique_ptr<Compiled>> compiled;  // by signature; the latest used last
  bool said_again = false;                          // why it compiles again
};

namespace {

std::string print(const std::vector<TensorType>& types) {
  return cat("(", join(types, ", ", [](const TensorType& t) { return tensor::print(t); }), ")");
}

// What earlier functions fixed, then the user's rules: where both speak they must agree.
void fix_layouts(const WorldState& world, const Trace& trace, Graph& graph, const std::vector<LayoutRule>& rules) {
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    Variable& variable = graph.variables[i];
    auto found = world.variables.find(variable.name);
    if (found == world.variables.end()) continue;
    const StoredVariable& stored = found->second;
    require(stored.parameter == trace.parameters()[i], "two parameters of this world are called '", variable.name, "': ", stored.parameter.type(),
            " and ", variable.type, "; give one of their root modules a name");
    const Mesh& mesh = graph.meshes[static_cast<std::size_t>(variable.mesh)];
    require(stored.mesh == mesh, "variable '", variable.name, "' lies on ", sbp::print(stored.mesh), "; this function is compiled for ",
            sbp::print(mesh));
    variable.stored = stored.layout;
  }
  apply_rules(graph, rules);
}

Compilation compiled(WorldState& world, Graph graph, const FunctionOptions& options) {
  Compilation c;
  int devices = graph.meshes[0].size();
  c.graph = std::move(graph);
  c.ops = &world.ops;
  c.catalog = &world.kernels;
  c.evaluate = world.evaluate;
  c.options = world.compile_options(devices);
  c.options.off = options.off;
  c.options.keep_text = options.keep_text;
  compile(c);
  return c;
}

// One launch, in the layout chosen, that writes the first values of variables nobody has used before.
void initialise(const std::shared_ptr<WorldState>& owner, const Mesh& mesh, const std::vector<std::pair<Parameter, Layout>>& fresh) {
  if (fresh.empty()) return;
  WorldState& world = *owner;
  Trace trace(world.ops, {.name = "init", .mesh = mesh});
  Builder& b = trace.builder;
  const std::int64_t state[2] = {static_cast<std::int64_t>(world.options.seed), 0};
  ValueId random = build::constant(b, {DType::i64, {2}}, std::as_bytes(std::span(state)));
  for (const auto& [parameter, layout] : fresh) {
    b.path = parameter.name();
    ValueId first = parameter.init()(b, parameter.type(), parameter.name(), random);
    require(trace.graph.type(first) == parameter.type(), "variable '", parameter.name(), "' is ", parameter.type(), "; its initialiser makes ",
            trace.graph.type(first));
    trace.update(parameter, first);
    trace.graph.variables.back().stored = layout;
  }
  Compilation c = compiled(world, std::move(trace.graph), {});
  PlanInSession once(owner, c.plan);
  world.session.launch(once.number()).wait();
  for (const auto& [parameter, layout] : fresh) world.variables[parameter.name()] = {parameter, mesh, layout};
}

}  // namespace

Function::Function(DeviceMesh mesh, int arguments, Body body, FunctionOptions options, SourceLine where) : state_(std::make_shared<State>()) {
  require(mesh.world != nullptr, "compile needs a mesh that a World has made");
  require(options.microbatches == 1, "compile: ", options.microbatches, " micro-batches; accumulation comes later, only 1 is possible yet");
  require(options.keep >= 1, "compile: keep = ", options.keep, "; at least the signature that is called must be kept");
  *state_ = {std::move(mesh), arguments, std::move(body), std::move(options), where, {}};
}

Future Function::call(std::vector<Argument> arguments) const {
  State& s = *state_;
  WorldState& world = *s.mesh.world;
  require(s.arguments < 0 || static_cast<int>(arguments.size()) == s.arguments, "function '", s.options.name, "' takes ", s.arguments,
          " arguments, not ", arguments.size());
  std::vector<TensorType> types;
  for (auto& argument : arguments) {
    if (argument.array.valid()) argument.feed = {argument.given_away ? array_source(argument.array) : world.copies.copy(argument.array), 0};
    require(argument.feed.source != nullptr, "argument ", types.size(), " of function '", s.options.name, "' has no source");
    types.push_back(argument.feed.source->type());
  }
  std::unique_lock lock(world.compiling);
  auto found =
      std::find_if(s.compiled.begin(), s.compiled.end(), [&](const auto& c) { return c->types == types && c->generation == world.generation; });
  if (found == s.compiled.end()) {
    s.compiled.push_back(compile_for(s, types));
    if (static_cast<int>(s.compiled.size()) > s.options.keep) s.compiled.erase(s.compiled.begin());
    found = s.compiled.end() - 1;
  }
  std::rotate(found, found + 1, s.compiled.end());
  const Compiled& c = *s.compiled.back();
  Feeds feeds;
  for (std::size_t i = 0; i < arguments.size(); ++i) feeds.emplace_back(cat("arg", i), arguments[i].feed);
  for (const auto& scalar : c.scalars) {
    HostArray value(TensorType{scalar.dtype, {}});
    with_type(scalar.dtype, [&]<class T>() { value.data<T>()[0] = static_cast<T>(scalar.value()); });
    feeds.emplace_back(scalar.name, Feed{array_source(value), 0});
  }
  return {s.mesh.world, world.session.launch(c.loaded->number(), feeds)};
}

std::unique_ptr<Function::Compiled> Function::compile_for(State& s, const std::vector<TensorType>& types) {
  WorldState& world = *s.mesh.world;
  std::erase_if(s.compiled, [&](const auto& c) { return c->generation != world.generation; });
  if (!s.compiled.empty() && !std::exchange(s.said_again, true))
    note(LogLevel::warning, karez::print(s.where), ": function '", s.options.name, "' is compiled again: it was called with ", print(types),
         ", before with ", print(s.compiled.back()->types), "; this is said once, and ", s.options.keep, " signatures are kept");

  Trace trace(world.ops, {.name = s.options.name, .mesh = s.mesh.mesh, .train = s.options.train, .counter = world.counter});
  {
    Trace::Scope scope(trace);
    std::vector<Tensor> inputs;
    trace.builder.where = karez::print(s.where);
    for (std::size_t i = 0; i < types.size(); ++i) inputs.push_back(trace.input(cat("arg", i), types[i]));
    trace.builder.where.clear();
    trace.finish(s.body(inputs));
  }
  auto out = std::make_unique<Compiled>();
  out->types = types;
  out->generation = world.generation;
  out->scalars = trace.host_scalars();
  out->graph = trace.graph;
  fix_layouts(world, trace, trace.graph, s.options.rules);
  Compilation c = compiled(world, std::move(trace.graph), s.options);

  std::vector<std::pair<Parameter, Layout>> fresh;
  for (const auto& parameter : trace.parameters()) {
    if (world.variables.count(parameter.name()) > 0) continue;
    // By name: passes may drop a variable that nothing needs.
    auto variable = std::find_if(c.graph.variables.begin(), c.graph.variables.end(), [&](const Variable& v) { return v.name == parameter.name(); });
    if (variable == c.graph.variables.end()) continue;
    require(variable->stored.has_value(), "the planner left variable '", parameter.name(), "' without a layout");
    fresh.emplace_back(parameter, *variable->stored);
  }
  initialise(s.mesh.world, s.mesh.mesh, fresh);
  out->loaded = std::make_unique<PlanInSession>(s.mesh.world, c.plan);
  out->plan = std::move(c.plan);
  out->report = std::move(c.shard_report);
  out->passes = std::move(c.passes);
  return out;
}

const Function::Compiled& Function::latest() const {
  require(!state_->compiled.empty(), "function '", state_->options.name, "' has no plan before its first call");
  return *state_->compiled.back();
}

const Graph& Function::graph() const { return latest().graph; }
const Plan& Function::plan() const { return latest().plan; }
std::string Function::summary() const { return karez::summary(latest().plan); }
const std::string& Function::shard_report() const { return latest().report; }
const std::vector<PassTime>& Function::passes() const { return latest().passes; }
int Function::signatures() const { return static_cast<int>(state_->compiled.size()); }

}  // namespace karez
