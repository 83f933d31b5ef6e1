// From expressions to a call: collects the needed expressions, finds the program of that structure or writes and
// compiles it, and calls it.
#include "karez/api/trace/expression_plans.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "karez/api/interactive.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"
#include "karez/base/text.h"
#include "karez/sbp/effective_layout.h"

namespace karez {

// Expressions in dependency order: operands are made before they are used.
struct ExpressionProgram {
  // A value of a part, or an argument.
  struct ValueSource {
    int part = -1, argument = -1;
    ValueId id = {};
    bool operator==(const ValueSource&) const = default;
  };
  struct Part {
    std::shared_ptr<const Expression> expression;
    std::vector<ValueSource> operands;
  };
  std::vector<Part> parts;
  LazyValues arguments;
  std::vector<ValueSource> results;                                  // distinct
  std::vector<std::pair<std::shared_ptr<LazyValue>, int>> bindings;  // values, each with the index of its result
};

namespace {

constexpr std::size_t max_plans = 256;
constexpr std::int64_t largest_whole_result = 64 << 10;      // in bytes of the whole value, equal on every rank
constexpr std::int64_t max_bytes = std::int64_t{256} << 20;  // of the values of cached programs

// Assembles a program. Operands that must be computed on another mesh are left out and listed in `elsewhere`.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(const Mesh& mesh) : mesh_(mesh) {}

  void add(const std::shared_ptr<const Expression>& wanted) {
    // With each expression the number of its operands already handled.
    std::vector<std::pair<std::shared_ptr<const Expression>, std::size_t>> stack;
    enter(stack, wanted);
    while (!stack.empty()) {
      auto& [expression, next] = stack.back();
      if (next < expression->operands.size()) {
        const auto& operand = expression->operands[next++];
        const auto from = operand->producer();
        if (from == nullptr || parts_.count(from.get()) > 0) continue;
        if (from->has_mesh && from->mesh() != mesh_) elsewhere.push_back(operand);
        else enter(stack, from);
      } else {
        leave(std::move(expression));
        stack.pop_back();
      }
    }
  }

  void add_result(const std::shared_ptr<LazyValue>& value) {
    const auto known = std::find_if(program.bindings.begin(), program.bindings.end(),
                                    [&](const auto& binding) { return binding.first == value; });
    if (known != program.bindings.end()) return;
    const ExpressionProgram::ValueSource source = source_of(value);
    const auto at = std::find(program.results.begin(), program.results.end(), source);
    program.bindings.emplace_back(value, static_cast<int>(at - program.results.begin()));
    if (at == program.results.end()) program.results.push_back(source);
  }

  ExpressionProgram program;
  LazyValues elsewhere;

 private:
  template <class Stack> void enter(Stack& stack, const std::shared_ptr<const Expression>& expression) {
    if (parts_.count(expression.get()) == 0) stack.emplace_back(expression, 0);
  }

  void leave(std::shared_ptr<const Expression> expression) {
    ExpressionProgram::Part part;
    for (const auto& operand : expression->operands) part.operands.push_back(source_of(operand));
    parts_.emplace(expression.get(), static_cast<int>(program.parts.size()));
    part.expression = std::move(expression);
    program.parts.push_back(std::move(part));
  }

  ExpressionProgram::ValueSource source_of(const std::shared_ptr<LazyValue>& value) {
    if (const auto from = value->producer())
      if (const auto made = parts_.find(from.get()); made != parts_.end())
        return {.part = made->second, .id = value->id};
    const auto [at, fresh] = arguments_.emplace(value->identity(), static_cast<int>(program.arguments.size()));
    if (fresh) program.arguments.push_back(value);
    return {.argument = at->second};
  }

  const Mesh& mesh_;
  std::map<const Expression*, int> parts_;
  std::map<const void*, int> arguments_;
};

template <class T> void put(std::string& key, T number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
void put(std::string& key, const ExpressionProgram::ValueSource& source) {
  put(key, source.part);
  put(key, source.argument);
  put(key, source.id.index);
}
void put(std::string& key, const Mesh& mesh) {
  key += sbp::print(mesh);
  for (DeviceName device : mesh.devices) put(key, device.rank), put(key, device.device);
}

// Whether the node may fail in a launch (an index out of range), so that its line must be the user's own.
bool may_fail(const Graph& graph, const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId in) { return !is_float(graph.type(in).dtype) && graph.type(in).dtype != DType::b8; });
}

void put(std::string& key, const Expression& expression, bool lines) {
  const Graph& graph = expression.trace.graph;
  for (const Node& node : graph.nodes) {
    key += node.op->name;
    if (node.op->role == Role::source) continue;  // its operand has more information
    key += node.attrs.print();
    key += node.path;
    for (const Graph& region : node.regions) key += graph::print(region);
    for (ValueId in : node.inputs) put(key, in.index);
    if (lines || may_fail(graph, node)) key += node.where;
    const auto& layout = graph.value(node.outputs[0]).layout;
    if (layout) key += sbp::print(graph.type(node.outputs[0]), expression.mesh(), *layout);
    key += ';';
  }
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    put(key, expression.trace.parameters()[i].identity().lock().get());
    put(key, graph.variables[i].read.index);
    put(key, graph.variables[i].updated.index);
  }
}

// A key with everything that the plan depends on.
std::string key_of(const ExpressionProgram& program, const Mesh& mesh, bool lines) {
  std::string key;
  put(key, mesh);
  for (const auto& value : program.arguments) {
    key += tensor::print(value->type);
    const Array array = value->array();
    if (!array.valid()) continue;
    key += sbp::print(value->type, array.mesh(), array.layout());
    put(key, array.mesh());
  }
  for (const ExpressionProgram::Part& part : program.parts) {
    key += '\n';
    put(key, *part.expression, lines);
    for (const ExpressionProgram::ValueSource& operand : part.operands) put(key, operand);
  }
  key += '\n';
  for (const ExpressionProgram::ValueSource& result : program.results) put(key, result);
  return key;
}

std::int64_t bytes_of(const ExpressionProgram& program) {
  std::int64_t bytes = 0;
  for (const ExpressionProgram::Part& part : program.parts)
    for (const Value& value : part.expression->trace.graph.values) bytes += value.type.bytes();
  return bytes;
}

// The mesh axes along which the values of a program may be split: those of its operands. They depend only on types and
// layouts, so that all ranks find the same.
class DividedAxes {
 public:
  DividedAxes(const ExpressionProgram& program, const Mesh& mesh) : program_(program), mesh_(mesh) {
    for (const auto& argument : program.arguments) {
      const Array array = argument->array();
      arguments_.push_back(array.valid() && array.mesh() == mesh ? axes_of(array.layout()) : Axes(mesh.axes.size()));
    }
    for (const ExpressionProgram::Part& part : program.parts) add(part);
  }

  // The names of the axes along which the planner may split this result, "data+model"; empty if it is small, the user
  // fixed its layout, or its operands are whole.
  std::string of_result(const ExpressionProgram::ValueSource& source) const {
    if (source.part < 0) return {};
    const Value& value = program_.parts[static_cast<std::size_t>(source.part)].expression->trace.graph.value(source.id);
    if (value.layout || value.type.bytes() <= largest_whole_result) return {};
    std::string names;
    const Axes axes = of(source);
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
      if (axes[axis]) names += (names.empty() ? "" : "+") + mesh_.axes[axis].name;
    return names;
  }

 private:
  using Axes = std::vector<bool>;

  Axes axes_of(const Layout& layout) const {
    Axes out;
    for (const Sbp& entry : sbp::effective_layout(mesh_, layout)) out.push_back(!entry.is_broadcast());
    return out;
  }

  const Axes& of(const ExpressionProgram::ValueSource& source) const {
    return source.part < 0 ? arguments_[static_cast<std::size_t>(source.argument)]
                           : made_[static_cast<std::size_t>(source.part)][source.id];
  }

  Axes of_variable(const Expression& expression, ValueId read) const {
    const Graph& graph = expression.trace.graph;
    for (std::size_t v = 0; v < graph.variables.size(); ++v) {
      if (graph.variables[v].read != read) continue;
      const auto world = world_of(expression);
      WorldLock lock(*world);
      const auto stored = world->find(expression.trace.parameters()[v]);
      if (stored != world->variables.end() && stored->second.mesh == mesh_) return axes_of(stored->second.layout);
    }
    return Axes(mesh_.axes.size());
  }

  void add(const ExpressionProgram::Part& part) {
    const Graph& graph = part.expression->trace.graph;
    ById<ValueId, Axes> made(graph.values.size());
    std::size_t operand = 0;
    for (const Node& node : graph.nodes) {
      Axes axes(mesh_.axes.size());
      if (node.op->role == Role::source) axes = of(part.operands[operand++]);
      else if (node.op->role == Role::state) axes = of_variable(*part.expression, node.outputs[0]);
      for (ValueId in : node.inputs)
        for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = axes[axis] || made[in][axis];
      for (ValueId out : node.outputs) made[out] = graph.value(out).layout ? axes_of(*graph.value(out).layout) : axes;
    }
    made_.push_back(std::move(made));
  }

  const ExpressionProgram& program_;
  const Mesh& mesh_;
  std::vector<Axes> arguments_;
  std::vector<ById<ValueId, Axes>> made_;  // by part
};

// Writes one expression's nodes into the open trace.
ById<ValueId, ValueId> write(Trace& t, const Expression& expression, std::span<const ValueId> operands) {
  const Graph& graph = expression.trace.graph;
  ById<ValueId, ValueId> now(graph.values.size());
  std::size_t operand = 0;
  for (const Node& node : graph.nodes) {
    ScopedValue where(t.builder.where, node.where), path(t.builder.path, node.path);
    if (node.op->role == Role::source) {
      now[node.outputs[0]] = operands[operand++];
    } else if (node.op->role == Role::state) {
      for (std::size_t v = 0; v < graph.variables.size(); ++v)
        if (graph.variables[v].read == node.outputs[0]) now[node.outputs[0]] = t.read(expression.trace.parameters()[v]);
    } else {
      std::vector<ValueId> inputs;
      for (ValueId in : node.inputs) inputs.push_back(now[in]);
      const std::vector<ValueId> outputs = t.builder.add(node.op->name, inputs, node.attrs);
      t.graph.nodes.back().regions = node.regions;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        now[node.outputs[i]] = outputs[i];
        if (const auto& layout = graph.value(node.outputs[i]).layout) t.graph.value(outputs[i]).layout = layout;
      }
    }
  }
  for (std::size_t v = 0; v < graph.variables.size(); ++v)
    if (graph.variables[v].updated.valid()) t.update(expression.trace.parameters()[v], now[graph.variables[v].updated]);
  return now;
}

std::vector<Tensor> write(const ExpressionProgram& program, std::span<const Tensor> arguments) {
  Trace& t = Trace::current();
  const Mesh mesh = t.graph.meshes[0];  // a copy, since more meshes may be added
  const DividedAxes divided(program, mesh);
  std::vector<ById<ValueId, ValueId>> made;
  const auto value = [&](const ExpressionProgram::ValueSource& source) {
    return source.part < 0 ? arguments[static_cast<std::size_t>(source.argument)].id
                           : made[static_cast<std::size_t>(source.part)][source.id];
  };
  const auto result = [&](const ExpressionProgram::ValueSource& source) {
    const std::string axes = divided.of_result(source);
    return axes.empty() ? value(source) : t.builder.one("layout", {value(source)}, Attrs().set("planned", axes));
  };
  for (const ExpressionProgram::Part& part : program.parts) {
    std::vector<ValueId> operands;
    for (const ExpressionProgram::ValueSource& operand : part.operands) operands.push_back(value(operand));
    made.push_back(write(t, *part.expression, operands));
  }
  std::vector<Tensor> out;
  for (const ExpressionProgram::ValueSource& source : program.results) out.push_back(t.tensor(result(source)));
  return out;
}

std::vector<Argument> arguments_of(const ExpressionProgram& program) {
  std::vector<Argument> out;
  for (const auto& value : program.arguments) {
    if (Array array = value->array(); array.valid()) {
      out.emplace_back(std::move(array));
    } else {
      out.emplace_back(value->host);
      out.back().donated = true;  // its bytes are never written
    }
  }
  return out;
}

// The plan of this structure; moves it to the end of the list.
ExpressionPlans::Plan& plan_of(ExpressionPlans& known, const DeviceMesh& on, const ExpressionProgram& program,
                               const SourceLine& where) {
  auto& plans = known.plans;
  std::string key = key_of(program, on.mesh, on.world->options.check_nan);
  if (auto found = std::find_if(plans.begin(), plans.end(), [&](const auto& plan) { return plan.key == key; });
      found != plans.end()) {
    std::rotate(found, found + 1, plans.end());
    return plans.back();
  }
  const std::int64_t bytes = bytes_of(program);
  std::int64_t held = bytes;
  for (const auto& plan : plans) held += plan.bytes;
  while (!plans.empty() && (plans.size() >= max_plans || held > max_bytes)) {
    held -= plans.front().bytes;
    plans.erase(plans.begin());
  }
  auto traced = std::make_shared<const ExpressionProgram*>(nullptr);
  Body body = [traced](std::span<const Tensor> arguments) { return write(**traced, arguments); };
  // The world owns the function, so the function must not own the world.
  const DeviceMesh borrowed{std::shared_ptr<WorldState>(std::shared_ptr<void>(), on.world.get()), on.mesh};
  ++known.compiled;
  plans.push_back({std::move(key), Function(borrowed, -1, std::move(body), {.name = "expression", .keep = 1}, where),
                   std::move(traced), bytes});
  return plans.back();
}

void call(ExpressionPlans& known, const DeviceMesh& on, const ExpressionProgram& program, const SourceLine& where) {
  ExpressionPlans::Plan& plan = plan_of(known, on, program, where);
  *plan.program = &program;
  try {
    const Future future = plan.function.call(arguments_of(program));
    for (const auto& [value, result] : program.bindings)
      value->set_array(future.value(static_cast<std::size_t>(result)));
  } catch (...) {
    if (!known.plans.empty() && &known.plans.back() == &plan) known.plans.pop_back();  // compilation may have failed
    throw;
  }
}

// Requires the plans' mutex.
void run_on(ExpressionPlans& known, const DeviceMesh& on, const LazyValues& wanted,
            const std::shared_ptr<const Expression>& updating, const SourceLine& where) {
  while (true) {
    ProgramBuilder program_builder(on.mesh);
    for (const auto& value : wanted)
      if (const auto from = value->producer()) program_builder.add(from);
    if (updating) program_builder.add(updating);
    if (!program_builder.elsewhere.empty()) {
      for (const auto& value : program_builder.elsewhere)
        if (const auto from = value->producer()) run_on(known, {on.world, from->mesh()}, {value}, nullptr, where);
      continue;
    }
    for (const auto& value : wanted)
      if (!value->array().valid()) program_builder.add_result(value);
    for (const ExpressionProgram::Part& part : program_builder.program.parts)
      for (const auto& value : part.expression->pending_values()) program_builder.add_result(value);
    if (!program_builder.program.results.empty() || updating) call(known, on, program_builder.program, where);
    return;
  }
}

template <class Act> void with_source_line(const SourceLine& where, Act act) {
  try {
    act();
  } catch (const Error& error) {
    if (!error.where.empty() || std::string_view(error.what()).find("\n  at ") != std::string_view::npos) throw;
    throw Error(error.kind, cat(error.what(), "\n  at ", print(where)), print(where));
  }
}

// The type of a tensor that is read: with several ranks all of them compute it, or none.
using Reading = const TensorType*;

void run_all(const LazyValues& wanted, const std::shared_ptr<const Expression>& updating,
             const std::shared_ptr<const Expression>& from, const SourceLine& where, Reading reading = nullptr) {
  with_source_line(where, [&] {
    require(from == nullptr || from->complete, "a tensor of a function whose gradient is being taken has no bytes yet");
    const DeviceMesh on = mesh_of(from.get());
    require(on.world->holder.load() != std::this_thread::get_id(),
            "a tensor is read while its world compiles on this thread: an initialiser or a rule of an op must not "
            "compute or read");
    std::lock_guard lock(on.world->expression_plans->mutex);
    if (reading != nullptr && !on.world->ranks.alone())
      agree_on_op(*on.world, {.what = cat("a read of ", *reading, ", which is computed for it"),
                              .where = where,
                              .advice = "values outside of compiled functions are computed by all ranks: read them on "
                                        "every rank, and print them on one"});
    run_on(*on.world->expression_plans, on, wanted, updating, where);
  });
}

}  // namespace

std::shared_ptr<WorldState> world_of(const Expression& expression) {
  auto alive = expression.world.lock();
  require(alive != nullptr,
          "a tensor of a world that no longer exists: read it while the World, or a mesh, function or future of it, is "
          "alive");
  return alive;
}

DeviceMesh mesh_of(const Expression* expression) {
  if (expression != nullptr && expression->has_mesh) return {world_of(*expression), expression->mesh()};
  const DeviceMesh* scope = Interactive::mesh();
  require(scope != nullptr,
          "the mesh of this computation is unknown: no operand is an Array; set it by Interactive on(mesh)");
  require(expression == nullptr || !expression->has_world || world_of(*expression) == scope->world,
          "a tensor belongs to a different world from the innermost Interactive");
  return *scope;
}

void run(const LazyValues& wanted, const SourceLine& where) {
  if (wanted.empty()) return;
  run_all(wanted, nullptr, wanted[0]->producer(), where);
}

void run_now(const std::shared_ptr<Expression>& expression, const SourceLine& where) {
  const LazyValues wanted = expression->pending_values();
  const auto& variables = expression->trace.graph.variables;
  const bool updates = std::any_of(variables.begin(), variables.end(),
                                   [](const Variable& variable) { return variable.updated.valid(); });
  if (!wanted.empty() || updates) run_all(wanted, updates ? expression : nullptr, expression, where);
}

Array Tensor::array(SourceLine where) const {
  require(lazy != nullptr || !id.valid(), "a tensor ", type,
          " of a program that is being traced has no bytes: return it from the function, and read ",
          "the result of a call\n  at ", karez::print(where));
  require(lazy != nullptr, "an uninitialised tensor is read\n  at ", karez::print(where));
  if (Array known = lazy->array(); known.valid()) return known;
  run({lazy}, where);
  return lazy->array();
}

bool has_planner_layout(const LazyValue& value) {
  const auto from = value.producer();
  if (from == nullptr || !from->has_mesh || value.type.bytes() <= largest_whole_result) return false;
  ProgramBuilder program_builder(from->mesh());
  program_builder.add(from);
  const int last = static_cast<int>(program_builder.program.parts.size()) - 1;
  return !DividedAxes(program_builder.program, from->mesh()).of_result({.part = last, .id = value.id}).empty();
}

Array computed(const Tensor& tensor, SourceLine where) {
  if (tensor.lazy == nullptr || tensor.lazy->array().valid() || tensor.lazy->producer() == nullptr)
    return tensor.array(where);
  run_all({tensor.lazy}, nullptr, tensor.lazy->producer(), where, &tensor.type);
  return tensor.lazy->array();
}

HostArray Tensor::host_array() const { return lazy == nullptr ? HostArray() : lazy->host; }

HostArray Tensor::read(SourceLine where) const {
  if (lazy == nullptr || !lazy->host.valid()) return computed(*this, where).read(where);
  HostArray copy(lazy->host.type());
  std::memcpy(copy.bytes(), lazy->host.bytes(), static_cast<std::size_t>(copy.type().bytes()));
  return copy;
}

}  // namespace karez
