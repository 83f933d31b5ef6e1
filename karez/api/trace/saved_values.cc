// Implements the search for values that backward reads: builds the gradients of the recorded results in a graph that
// does not run, and lists what they read.
#include "karez/api/trace/saved_values.h"

#include <algorithm>
#include <map>
#include <utility>

#include "karez/api/namespace.h"
#include "karez/base/text.h"
#include "karez/ops/compose.h"
#include "karez/ops/gradient.h"

namespace karez {
namespace {

using ValueSource = ExpressionProgram::ValueSource;

bool has_record(const LazyValue& value, const Expression& expression) {
  return value.record().expression.get() == &expression;
}

bool is_recorded(const Expression& expression) {
  if (!expression.requires_gradient) return false;
  return std::any_of(expression.values.begin(), expression.values.end(), [&](const auto& weak_value) {
    const auto value = weak_value.lock();
    return value != nullptr && has_record(*value, expression);
  });
}

bool is_recorded_result(const ExpressionProgram& program, const LazyValue& value, int result) {
  const ValueSource& source = program.results[static_cast<std::size_t>(result)];
  return source.part >= 0 && has_record(value, *program.parts[static_cast<std::size_t>(source.part)].expression);
}

class RecordedGraph {
 public:
  RecordedGraph(const ExpressionProgram& program, const DeviceMesh& mesh) : program_(program) {
    scratch_->place_on(mesh.world, mesh.mesh);
  }

  std::vector<ValueSource> values_for_backward() {
    Trace& t = scratch_->trace;
    const Trace::Scope scope(t);
    for (std::size_t part = 0; part < program_.parts.size(); ++part) {
      add(static_cast<int>(part));
      for (const Expression::Copy& copy : program_.parts[part].expression->copies)
        if (!copy.record.expired()) list({.part = static_cast<int>(part), .id = copy.id});
    }
    ValueId loss;
    for (const auto& [value, result] : program_.bindings) {
      if (!is_recorded_result(program_, *value, result)) continue;
      const ValueId term = weighted_sum(value_of(program_.results[static_cast<std::size_t>(result)]));
      loss = loss.valid() ? build::add(t.builder, loss, build::cast(t.builder, term, t.graph.type(loss).dtype)) : term;
    }
    if (loss.valid()) visit(gradients(loss));
    return std::move(out_);
  }

 private:
  void add(int number) {
    const ExpressionProgram::Part& part = program_.parts[static_cast<std::size_t>(number)];
    if (!is_recorded(*part.expression)) return;
    Trace& t = scratch_->trace;
    std::vector<ValueId> operands;
    for (const ValueSource& source : part.operands) operands.push_back(value_of(source));
    const ById<ValueId, ValueId> new_ids =
        write_nodes(t, *part.expression, operands, [&](const Parameter& parameter) { return read(parameter); });
    for (std::size_t v = 0; v < new_ids.size(); ++v) {
      const ValueId id(v);
      if (new_ids[id].valid()) sources_.emplace(new_ids[id], ValueSource{.part = number, .id = id});
    }
    for (const Node& node : part.expression->graph().nodes)
      for (const ValueId id : node.outputs) ids_.emplace(std::pair(number, id), new_ids[id]);
    if (part.expression->hook != nullptr) add_custom_function(*part.expression, new_ids);
  }

  // What the backward pass of a custom function reads is not known here: its tensors keep their own values.
  void add_custom_function(const Expression& expression, const ById<ValueId, ValueId>& new_ids) {
    ops::GradientHook hook;
    std::vector<TensorType> types;
    for (const Tensor& operand : expression.hook->operands) {
      const auto producer = operand.lazy->record().expression;
      ValueId id;
      for (std::size_t part = 0; part < program_.parts.size(); ++part)
        if (program_.parts[part].expression == producer)
          id = value_of({.part = static_cast<int>(part), .id = operand.lazy->record().id});
      if (!id.valid()) id = placeholder(operand.type);
      hook.operands.push_back(id);
      types.push_back(operand.type);
    }
    if (hook.operands.empty()) return;  // the hook of a module
    for (const Node& node : expression.graph().nodes)
      if (node.op->role != Role::source && node.op->role != Role::state)
        hook.outputs.push_back(new_ids[node.outputs[0]]);
    hook.replace_outputs = [this, types](std::span<const ValueId>) {
      std::vector<ValueId> out;
      for (const TensorType& type : types) out.push_back(placeholder(type));
      return out;
    };
    hooks_.push_back(std::move(hook));
  }

  ValueId placeholder(const TensorType& type) {
    return build::input(scratch_->trace.builder, cat("value", ++placeholders_), type);
  }

  // A value of a recorded part; a value from elsewhere is an input.
  ValueId value_of(const ValueSource& source) {
    if (source.part >= 0) {
      const auto [at, is_new] = ids_.emplace(std::pair(source.part, source.id), ValueId());
      const auto& graph = program_.parts[static_cast<std::size_t>(source.part)].expression->graph();
      if (is_new) at->second = placeholder(graph.type(source.id));
      return at->second;
    }
    const auto [at, is_new] = arguments_.emplace(source.argument, ValueId());
    if (is_new) {
      const LazyValue& value = *program_.arguments[static_cast<std::size_t>(source.argument)];
      at->second = placeholder(value.type);
      if (value.requires_gradient()) wrt_.push_back(at->second);
    }
    return at->second;
  }

  ValueId read(const Parameter& parameter) {
    const ValueId id = scratch_->trace.read(parameter);
    if (is_float(parameter.dtype()) && std::find(wrt_.begin(), wrt_.end(), id) == wrt_.end()) wrt_.push_back(id);
    return id;
  }

  ValueId weighted_sum(ValueId id) {
    Builder& b = scratch_->trace.builder;
    const TensorType type = scratch_->trace.graph.type(id);
    if (type.shape.empty()) return id;
    Ints axes(type.shape.size());
    for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
    return build::reduce_sum(b, build::mul(b, id, placeholder(type)), axes);
  }

  // Nothing if a gradient does not exist.
  std::vector<ValueId> gradients(ValueId loss) {
    try {
      return ops::gradient(scratch_->trace.builder, loss, wrt_, {.hooks = hooks_});
    } catch (const Error&) { return {}; }
  }

  void list(const ValueSource& source) {
    const auto& results = program_.results;
    if (std::find(results.begin(), results.end(), source) == results.end() &&
        std::find(out_.begin(), out_.end(), source) == out_.end())
      out_.push_back(source);
  }

  // Lists the values of parts at which paths from the gradients end.
  void visit(std::vector<ValueId> stack) {
    const Graph& graph = scratch_->trace.graph;
    ById<ValueId, bool> visited(graph.values.size());
    while (!stack.empty()) {
      const ValueId id = stack.back();
      stack.pop_back();
      if (visited[id] || !graph.value(id).producer.valid()) continue;
      visited[id] = true;
      const Node& node = graph.node(graph.value(id).producer);
      if (node.op->role == Role::source || node.op->role == Role::state || node.op->role == Role::constant) continue;
      const auto source = sources_.find(id);
      if (source != sources_.end() && node.op->role != Role::window) {
        list(source->second);
        continue;
      }
      stack.insert(stack.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  const ExpressionProgram& program_;
  std::shared_ptr<Expression> scratch_ = std::make_shared<Expression>();
  std::map<ValueId, ValueSource> sources_;          // of values of the graph
  std::map<std::pair<int, ValueId>, ValueId> ids_;  // of values of parts
  std::map<int, ValueId> arguments_;
  std::vector<ValueId> wrt_;
  std::vector<ops::GradientHook> hooks_;
  int placeholders_ = 0;
  std::vector<ValueSource> out_;
};

}  // namespace

std::string record_key(const ExpressionProgram& program) {
  std::string out;
  for (const ExpressionProgram::Part& part : program.parts) out += is_recorded(*part.expression) ? '1' : '0';
  bool has_copies = false;
  for (const ExpressionProgram::Part& part : program.parts)
    for (const Expression::Copy& copy : part.expression->copies) {
      has_copies = true;
      out += copy.record.expired() ? cat(",", copy.id.index) : cat(";", copy.id.index);
    }
  if (!has_copies && out.find('1') == std::string::npos) return {};
  for (const auto& [value, result] : program.bindings) out += is_recorded_result(program, *value, result) ? '1' : '0';
  for (const auto& value : program.arguments) out += value->requires_gradient() ? '1' : '0';
  return out;
}

std::vector<ExpressionProgram::ValueSource> values_for_backward(const ExpressionProgram& program,
                                                                const DeviceMesh& mesh) {
  return RecordedGraph(program, mesh).values_for_backward();
}

SavedValue saved_value(const ExpressionProgram& program, const ValueSource& source) {
  const auto& expression = program.parts[static_cast<std::size_t>(source.part)].expression;
  for (const auto& weak_value : expression->values)
    if (auto value = weak_value.lock(); value != nullptr && value->producer() == expression && value->id() == source.id)
      return {std::move(value), nullptr, {}};
  // The new value does not belong to the expression, so a failure of the program leaves no trace.
  auto value = std::make_shared<LazyValue>(expression->graph().type(source.id), source.id, expression);
  for (const Expression::Copy& copy : expression->copies)
    if (copy.id == source.id) return {std::move(value), copy.record.lock(), copy.record_id};
  return {std::move(value), expression, source.id};
}

void SavedValue::save() const {
  if (record != nullptr) record->save(id, value);
}

}  // namespace karez
