// Runs expressions: collects the expressions that are needed, finds or compiles a function for their structure, and
// calls this function.
#include "karez/api/trace/expression_plans.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/expression_program.h"
#include "karez/api/trace/program_bytes.h"
#include "karez/api/trace/saved_values.h"
#include "karez/api/trace/variable_reads.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"
#include "karez/base/text.h"
#include "karez/sbp/effective_layout.h"

namespace karez {

namespace {

constexpr std::size_t max_plans = 256;
constexpr std::int64_t max_unsplit_bytes = 64 << 10;         // a result with a larger global value may be split
constexpr std::int64_t max_bytes = std::int64_t{256} << 20;  // the limit for all cached programs, see kept_bytes

// The mesh axes along which the values of a program may be split: those that split its operands. They depend only on
// types and layouts, so they are the same on all ranks.
class SplitAxes {
 public:
  SplitAxes(const ExpressionProgram& program, const Mesh& mesh) : program_(program), mesh_(mesh) {
    for (const auto& argument : program.arguments) {
      const Array array = argument->array();
      arguments_.push_back(array.valid() && array.mesh() == mesh ? axes_of(array.layout()) : Axes(mesh.axes.size()));
    }
    for (const ExpressionProgram::Part& part : program.parts) add(part);
  }

  // Returns the names of the axes along which the planner may split this result, such as "data+model"; empty if the
  // result is small, the user fixed its layout, or no operand is split.
  std::string result_axes(const ExpressionProgram::ValueSource& source) const {
    if (source.part < 0) return {};
    const Value& value = program_.parts[static_cast<std::size_t>(source.part)].expression->graph().value(source.id);
    if (value.layout || value.type.bytes() <= max_unsplit_bytes) return {};
    std::string names;
    const Axes axes = axes_of(source);
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

  const Axes& axes_of(const ExpressionProgram::ValueSource& source) const {
    return source.part < 0 ? arguments_[static_cast<std::size_t>(source.argument)]
                           : values_[static_cast<std::size_t>(source.part)][source.id];
  }

  Axes variable_axes(const Expression& expression, ValueId read) const {
    const Graph& graph = expression.graph();
    for (std::size_t v = 0; v < graph.variables.size(); ++v) {
      if (graph.variables[v].read != read) continue;
      const auto world = world_of(expression);
      WorldLock lock(*world);
      const auto stored = world->variables.find(expression.trace.parameters()[v]);
      if (stored != world->variables.by_key.end() && stored->second.mesh == mesh_)
        return axes_of(stored->second.layout);
    }
    return Axes(mesh_.axes.size());
  }

  void add(const ExpressionProgram::Part& part) {
    const Graph& graph = part.expression->graph();
    ById<ValueId, Axes> values(graph.values.size());
    std::size_t operand = 0;
    for (const Node& node : graph.nodes) {
      Axes axes(mesh_.axes.size());
      if (node.op->role == Role::source) axes = axes_of(part.operands[operand++]);
      else if (node.op->role == Role::state) axes = variable_axes(*part.expression, node.outputs[0]);
      for (ValueId in : node.inputs)
        for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = axes[axis] || values[in][axis];
      for (ValueId out : node.outputs) values[out] = graph.value(out).layout ? axes_of(*graph.value(out).layout) : axes;
    }
    values_.push_back(std::move(values));
  }

  const ExpressionProgram& program_;
  const Mesh& mesh_;
  std::vector<Axes> arguments_;
  std::vector<ById<ValueId, Axes>> values_;  // by part
};

// Writes the nodes of one expression and its updates into the open trace, and returns the new ids of its values.
ById<ValueId, ValueId> write(Trace& t, const Expression& expression, std::span<const ValueId> operands) {
  const Graph& graph = expression.graph();
  ById<ValueId, ValueId> new_ids =
      write_nodes(t, expression, operands, [&](const Parameter& parameter) { return t.read(parameter); });
  for (std::size_t v = 0; v < graph.variables.size(); ++v)
    if (graph.variables[v].updated.valid())
      t.update(expression.trace.parameters()[v], new_ids[graph.variables[v].updated]);
  return new_ids;
}

std::vector<Tensor> write(const ExpressionProgram& program, std::span<const Tensor> arguments) {
  Trace& t = Trace::current();
  const Mesh mesh = t.graph.meshes[0];  // a copy, since more meshes may be added
  const SplitAxes split_axes(program, mesh);
  std::vector<ById<ValueId, ValueId>> part_values;
  const auto value = [&](const ExpressionProgram::ValueSource& source) {
    return source.part < 0 ? arguments[static_cast<std::size_t>(source.argument)].id
                           : part_values[static_cast<std::size_t>(source.part)][source.id];
  };
  const auto result = [&](const ExpressionProgram::ValueSource& source) {
    const std::string axes = split_axes.result_axes(source);
    return axes.empty() ? value(source) : t.builder.one("layout", {value(source)}, Attrs().set("planned", axes));
  };
  for (const ExpressionProgram::Part& part : program.parts) {
    std::vector<ValueId> operands;
    for (const ExpressionProgram::ValueSource& operand : part.operands) operands.push_back(value(operand));
    part_values.push_back(write(t, *part.expression, operands));
  }
  std::vector<Tensor> out;
  for (const ExpressionProgram::ValueSource& source : program.results) out.push_back(t.tensor(result(source)));
  return out;
}

std::vector<Argument> make_arguments(const ExpressionProgram& program) {
  std::vector<Argument> out;
  for (const auto& value : program.arguments) {
    if (Array array = value->array(); array.valid()) {
      out.emplace_back(std::move(array));
    } else {
      out.push_back(host_argument(*value));
    }
  }
  return out;
}

// Appends the values that the plan keeps for backward to the results of the program.
std::vector<SavedValue> add_saved(const std::vector<ExpressionProgram::ValueSource>& sources,
                                  ExpressionProgram& program) {
  std::vector<SavedValue> out;
  for (const ExpressionProgram::ValueSource& source : sources) {
    out.push_back(saved_value(program, source));
    program.bindings.emplace_back(out.back().value, static_cast<int>(program.results.size()));
    program.results.push_back(source);
  }
  return out;
}

// Finds or makes the plan for a program of this structure, and moves it to the end of the list.
ExpressionPlanCache::Entry& find_plan(ExpressionPlanCache& cache, const DeviceMesh& mesh,
                                      const ExpressionProgram& program, const SourceLine& where) {
  auto& entries = cache.entries;
  std::string key = key_of(program, mesh.mesh, mesh.world->options.check_nan);
  const std::string records = record_key(program);
  key += records;
  if (auto match = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.key == key; });
      match != entries.end()) {
    std::rotate(match, match + 1, entries.end());
    return entries.back();
  }
  const std::int64_t bytes = kept_bytes(program, mesh.mesh, key);
  std::int64_t cached_bytes = bytes;
  for (const auto& entry : entries) cached_bytes += entry.bytes;
  while (!entries.empty() && (entries.size() >= max_plans || cached_bytes > max_bytes)) {
    cached_bytes -= entries.front().bytes;
    entries.erase(entries.begin());
  }
  auto current_program = std::make_shared<const ExpressionProgram*>(nullptr);
  Body body = [current_program](std::span<const Tensor> arguments) { return write(**current_program, arguments); };
  // The world owns the function, so the function must not own the world.
  const DeviceMesh unowned{std::shared_ptr<WorldState>(std::shared_ptr<void>(), mesh.world.get()), mesh.mesh};
  ++cache.compiled;
  Function function(unowned, -1, std::move(body), {.name = "expression", .keep = 1}, where);
  auto plan = std::make_shared<ExpressionPlan>(ExpressionPlan{std::move(function), std::move(current_program), {}});
  entries.push_back({std::move(key), std::move(plan), bytes});
  if (!records.empty()) entries.back().plan->saved = values_for_backward(program, mesh);
  return entries.back();
}

void call(ExpressionPlanCache& cache, const DeviceMesh& mesh, ExpressionProgram program, const SourceLine& where) {
  ExpressionPlanCache::Entry& entry = find_plan(cache, mesh, program, where);
  const std::shared_ptr<ExpressionPlan> plan = entry.plan;
  const std::vector<SavedValue> saved = add_saved(plan->saved, program);
  *plan->program = &program;
  try {
    const Future future = plan->function.call(make_arguments(program));
    for (const auto& [value, result] : program.bindings)
      value->set_array(future.value(static_cast<std::size_t>(result)));
    for (const SavedValue& value : saved) value.save();
  } catch (...) {
    // Removes the plan, because its compilation may have failed.
    if (!cache.entries.empty() && cache.entries.back().plan == plan) cache.entries.pop_back();
    throw;
  }
}

// Throws if the program reads variables that have changed since the user wrote its expressions.
void check_reads(WorldState& world, const ExpressionProgram& program) {
  int generation = -1;
  for (const ExpressionProgram::Part& part : program.parts) {
    if (part.expression->failure) std::rethrow_exception(part.expression->failure);
    if (part.expression->generation >= 0) generation = part.expression->generation;
  }
  if (generation < 0) return;
  WorldLock lock(world);
  require(generation == world.generation,
          "a tensor that depends on variables was not computed before the world was reset");
}

// Computes the values, and applies the updates of variables in the expression `update` if it is not null. The caller
// must hold the cache's mutex.
void run_on(ExpressionPlanCache& cache, const DeviceMesh& mesh, const LazyValues& values,
            const std::shared_ptr<const Expression>& update, const SourceLine& where) {
  while (true) {
    ProgramBuilder program_builder(mesh.mesh);
    for (const auto& value : values)
      if (const auto producer = value->producer()) program_builder.add(producer);
    if (update) program_builder.add(update);
    if (!program_builder.other_mesh_operands.empty()) {
      for (const auto& value : program_builder.other_mesh_operands)
        if (const auto producer = value->producer())
          run_on(cache, {mesh.world, producer->mesh()}, {value}, nullptr, where);
      continue;
    }
    for (const auto& value : values)
      if (!value->array().valid()) program_builder.add_result(value);
    for (const ExpressionProgram::Part& part : program_builder.program.parts)
      for (const auto& value : part.expression->pending_values()) program_builder.add_result(value);
    check_reads(*mesh.world, program_builder.program);
    if (!program_builder.program.results.empty() || update)
      call(cache, mesh, std::move(program_builder.program), where);
    return;
  }
}

template <class Action> void with_source_line(const SourceLine& where, Action action) {
  try {
    action();
  } catch (const Error& error) {
    if (!error.where.empty() || std::string_view(error.what()).find("\n  at ") != std::string_view::npos) throw;
    throw Error(error.kind, cat(error.what(), "\n  at ", print(where)), print(where));
  }
}

// Computes the values on the mesh of the expression `producer`. If a tensor is read, `read_type` is its type, otherwise
// null. With several ranks, a tensor that is read is computed on all of them or on none.
void run_all(const LazyValues& values, const std::shared_ptr<const Expression>& update,
             const std::shared_ptr<const Expression>& producer, const SourceLine& where,
             const TensorType* read_type = nullptr) {
  // The line of the read says less than that of the deferred expression.
  with_source_line(producer != nullptr && producer->first_read > 0 ? producer->where : where, [&] {
    require(producer == nullptr || producer->complete,
            "a tensor of a function whose gradient is being taken has no bytes yet");
    const DeviceMesh mesh = mesh_of(producer.get());
    require(mesh.world->holder.load() != std::this_thread::get_id(),
            "a tensor is read while its world compiles on this thread: an initialiser or a rule of an op must not "
            "compute or read tensors");
    std::lock_guard lock(mesh.world->expression_plans.mutex);
    if (read_type != nullptr && !mesh.world->ranks.alone())
      agree_on_op(*mesh.world, {.what = cat("a computation and read of ", *read_type),
                                .where = where,
                                .advice = "all ranks must take part in computations outside of compiled functions: "
                                          "read the value on every rank, and print it on one"});
    run_on(mesh.world->expression_plans, mesh, values, update, where);
  });
}

bool updates_variables(const Expression& expression) {
  const auto& variables = expression.graph().variables;
  return std::any_of(variables.begin(), variables.end(),
                     [](const Variable& variable) { return variable.updated.valid(); });
}

}  // namespace

void run(const LazyValues& values, const SourceLine& where) {
  if (values.empty()) return;
  run_all(values, nullptr, values[0]->producer(), where);
}

void run_now(const std::shared_ptr<Expression>& expression, const SourceLine& where) {
  const LazyValues values = expression->pending_values();
  const bool updates = updates_variables(*expression);
  if (!values.empty() || updates) run_all(values, updates ? expression : nullptr, expression, where);
}

Array Tensor::array(SourceLine where) const {
  if (lazy == nullptr && id.valid())
    fail("a tensor ", type, " of a program that is being traced has no bytes: return it from the function, and read ",
         "the result of a call\n  at ", karez::print(where));
  if (lazy == nullptr) fail("an uninitialised tensor cannot be read\n  at ", karez::print(where));
  if (Array value = lazy->array(); value.valid()) return value;
  run({lazy}, where);
  return lazy->array();
}

bool has_planner_layout(const LazyValue& value) {
  const auto producer = value.producer();
  if (producer == nullptr || !producer->has_mesh || value.type.bytes() <= max_unsplit_bytes) return false;
  ProgramBuilder program_builder(producer->mesh());
  program_builder.add(producer);
  const int last_part = static_cast<int>(program_builder.program.parts.size()) - 1;
  return !SplitAxes(program_builder.program, producer->mesh())
              .result_axes({.part = last_part, .id = value.id()})
              .empty();
}

Array computed(const Tensor& tensor, SourceLine where) {
  if (tensor.lazy == nullptr || tensor.lazy->array().valid() || tensor.lazy->producer() == nullptr)
    return tensor.array(where);
  run_all({tensor.lazy}, nullptr, tensor.lazy->producer(), where, &tensor.type);
  return tensor.lazy->array();
}

HostArray Tensor::host_array() const { return lazy == nullptr ? HostArray() : lazy->complete_host(); }

HostArray Tensor::read(SourceLine where) const {
  if (lazy == nullptr || !lazy->host.valid()) return computed(*this, where).read(where);
  const HostArray& host = lazy->complete_host();
  HostArray copy(host.type());
  std::memcpy(copy.bytes(), host.bytes(), static_cast<std::size_t>(copy.type().bytes()));
  return copy;
}

ExpressionScope::ExpressionScope() {
  if (Trace::open() != nullptr) return;
  expression_ = std::allocate_shared<Expression>(expression_memory());
  scope_.emplace(expression_->trace);
}
ExpressionScope::~ExpressionScope() = default;

namespace {

// Runs an expression that is complete, unless it can be deferred.
void run_or_defer(const std::shared_ptr<Expression>& complete_expression, const SourceLine& where) {
  Expression& expression = *complete_expression;
  expression.complete = true;
  if (updates_variables(expression)) {
    const auto world = world_of(expression);
    // Only expressions that update the state of random numbers read it.
    if (expression.trace.parameters() != std::vector{world->counter}) world->deferred_reads.run();
    return run_now(complete_expression, where);
  }
  if (!expression.trace.parameters().empty() && !may_defer(expression)) return run_now(complete_expression, where);
  if (expression.first_read > 0) defer(complete_expression, where);
  if (expression.depth >= max_expression_depth || expression.last_read - expression.first_read >= max_expression_reads)
    run(expression.pending_values(), where);
}

}  // namespace

void ExpressionScope::finish(const SourceLine& where) const {
  if (expression_ == nullptr) return;
  try {
    run_or_defer(expression_, where);
  } catch (...) {
    expression_->saved_reads.clear();  // its values own the expression until they are computed
    throw;
  }
}

}  // namespace karez
