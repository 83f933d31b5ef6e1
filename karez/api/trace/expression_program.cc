// Assembles programs from expressions, and computes the keys of programs.
#include "karez/api/trace/expression_program.h"

#include <algorithm>
#include <string_view>

#include "karez/api/namespace.h"
#include "karez/api/state/array_value.h"
#include "karez/api/trace/key_bytes.h"
#include "karez/api/trace/shared_graph.h"

namespace karez {
namespace {

using key::put;

void put(std::string& key, const ExpressionProgram::ValueSource& source) {
  put(key, source.part);
  put(key, source.argument);
  put(key, source.id.index);
}
void put(std::string& key, const Mesh& mesh) {
  key += sbp::print(mesh);
  for (DeviceName device : mesh.devices) put(key, device.rank), put(key, device.device);
}

void put(std::string& key, const Attrs& attrs) {
  put(key, attrs.items().size());
  for (const auto& [name, attr] : attrs.items()) {
    put(key, std::string_view(name));
    put(key, attr.index());
    if (const auto* text = std::get_if<std::string>(&attr)) put(key, std::string_view(*text));
    else if (const auto* numbers = std::get_if<Ints>(&attr)) put(key, std::span<const std::int64_t>(*numbers));
    else if (const auto* real = std::get_if<double>(&attr)) put(key, *real);
    else if (const auto* integer = std::get_if<std::int64_t>(&attr)) put(key, *integer);
    else put(key, std::get<bool>(attr));
  }
}

void put(std::string& key, const Expression& expression, bool lines) {
  const Graph& graph = expression.graph();
  if (expression.shared != nullptr) {
    key += expression.shared->key;
    if (lines || expression.shared->may_fail) key += expression.shared_line;
  } else {
    key += key_of(graph);
    for (const Node& node : graph.nodes)
      if (lines || may_fail(graph, node)) key += node.where + ';';
    for (ValueId id : graph.values.ids()) {
      const auto& layout = graph.value(id).layout;
      if (layout) put(key, id.index), key += sbp::print(graph.type(id), expression.mesh(), *layout);
    }
  }
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    put(key, expression.trace.parameters()[i].identity().lock().get());
    put(key, graph.variables[i].read.index);
    put(key, graph.variables[i].updated.index);
  }
}

}  // namespace

bool may_fail(const Graph& graph, const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId in) { return !is_float(graph.type(in).dtype) && graph.type(in).dtype != DType::b8; });
}

void ProgramBuilder::add(const std::shared_ptr<const Expression>& root) {
  // Each entry has an expression and the number of its operands that have been visited.
  std::vector<std::pair<std::shared_ptr<const Expression>, std::size_t>> stack;
  const auto push = [&](const std::shared_ptr<const Expression>& expression) {
    if (parts_.count(expression.get()) == 0) stack.emplace_back(expression, 0);
  };
  push(root);
  while (!stack.empty()) {
    auto& [expression, next] = stack.back();
    if (next < expression->operands.size()) {
      const auto& operand = expression->operands[next++];
      const auto producer = operand->producer();
      if (producer == nullptr || parts_.count(producer.get()) > 0) continue;
      if (producer->has_mesh && producer->mesh() != mesh_) other_mesh_operands.push_back(operand);
      else push(producer);
    } else {
      add_part(std::move(expression));
      stack.pop_back();
    }
  }
}

void ProgramBuilder::add_result(const std::shared_ptr<LazyValue>& value) {
  const auto binding = std::find_if(program.bindings.begin(), program.bindings.end(),
                                    [&](const auto& other) { return other.first == value; });
  if (binding != program.bindings.end()) return;
  const ExpressionProgram::ValueSource source = source_of(value);
  const auto result = std::find(program.results.begin(), program.results.end(), source);
  program.bindings.emplace_back(value, static_cast<int>(result - program.results.begin()));
  if (result == program.results.end()) program.results.push_back(source);
}

void ProgramBuilder::add_part(std::shared_ptr<const Expression> expression) {
  ExpressionProgram::Part part;
  for (const auto& operand : expression->operands) part.operands.push_back(source_of(operand));
  parts_.emplace(expression.get(), static_cast<int>(program.parts.size()));
  part.expression = std::move(expression);
  program.parts.push_back(std::move(part));
}

ExpressionProgram::ValueSource ProgramBuilder::source_of(const std::shared_ptr<LazyValue>& value) {
  if (const auto producer = value->producer())
    if (const auto part = parts_.find(producer.get()); part != parts_.end())
      return {.part = part->second, .id = value->id()};
  const auto [argument, is_new] = arguments_.emplace(value->identity(), static_cast<int>(program.arguments.size()));
  if (is_new) program.arguments.push_back(value);
  return {.argument = argument->second};
}

ById<ValueId, ValueId> write_nodes(Trace& t, const Expression& expression, std::span<const ValueId> operands,
                                   const std::function<ValueId(const Parameter&)>& read) {
  const Graph& graph = expression.graph();
  ById<ValueId, ValueId> new_ids(graph.values.size());
  std::size_t operand = 0;
  for (const Node& node : graph.nodes) {
    ScopedValue where(t.builder.where, expression.line_of(node)), path(t.builder.path, node.path);
    if (node.op->role == Role::source) {
      new_ids[node.outputs[0]] = operands[operand++];
    } else if (node.op->role == Role::state) {
      for (std::size_t v = 0; v < graph.variables.size(); ++v)
        if (graph.variables[v].read == node.outputs[0])
          new_ids[node.outputs[0]] = read(expression.trace.parameters()[v]);
    } else {
      write_node(t, graph, node, new_ids);
    }
  }
  return new_ids;
}

void write_node(Trace& t, const Graph& graph, const Node& node, ById<ValueId, ValueId>& new_ids) {
  std::vector<ValueId> inputs;
  for (ValueId in : node.inputs) inputs.push_back(new_ids[in]);
  const std::vector<ValueId> outputs = t.builder.add_copy(graph, node, inputs);
  t.graph.nodes.back().regions = node.regions;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    new_ids[node.outputs[i]] = outputs[i];
    if (const auto& layout = graph.value(node.outputs[i]).layout) t.graph.value(outputs[i]).layout = layout;
  }
}

std::string key_of(const Graph& graph) {
  std::string key;
  for (const Node& node : graph.nodes) {
    put(key, std::string_view(node.op->name));
    if (node.op->role == Role::source) continue;  // the key of the program contains the operand
    put(key, node.attrs);
    put(key, std::string_view(node.path));
    for (const Graph& region : node.regions) key += graph::print(region);
    for (ValueId in : node.inputs) put(key, in.index);
  }
  return key;
}

std::string key_of(const ExpressionProgram& program, const Mesh& mesh, bool lines) {
  std::string key;
  put(key, mesh);
  for (const auto& value : program.arguments) {
    put(key, value->type.dtype, value->type.shape);
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

}  // namespace karez
