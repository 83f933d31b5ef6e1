// Implements shared graphs of gradients: the key of a record, and the expression that shares a graph.
#include "karez/api/trace/shared_gradients.h"

#include <algorithm>

#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression_program.h"

namespace karez {
namespace {

bool exists(const LazyValue& value) { return value.host.valid() || value.array().valid(); }

// Functions of hooks run in between, saved states belong to one record, and nodes with layouts have them on one mesh.
bool has_own_graph(const Expression& expression) {
  return expression.hook != nullptr ||
         std::any_of(expression.saved_reads.begin(), expression.saved_reads.end(),
                     [](const auto& read) { return read.second.lazy != nullptr; }) ||
         std::any_of(expression.graph().values.begin(), expression.graph().values.end(),
                     [](const Value& value) { return value.layout.has_value(); });
}

}  // namespace

NumberedRecord::NumberedRecord(const Expressions& expressions, const std::vector<Tensor>& outputs,
                               const std::vector<Tensor>& seeds, const GradientTargets& targets,
                               const BackwardOptions& options)
    : expressions_(expressions) {
  const auto known = std::find_if(expressions.begin(), expressions.end(), [](const auto& e) { return e->has_world; });
  if (known == expressions.end()) return;
  world_ = world_of(**known);
  const auto placed = std::find_if(expressions.begin(), expressions.end(), [](const auto& e) { return e->has_mesh; });
  if (world_->options.check_nan) world_ = nullptr;  // the lines of all nodes are needed
  for (const auto& expression : expressions) {
    if (world_ == nullptr) return;
    if (has_own_graph(*expression) || (expression->has_mesh && expression->mesh() != (*placed)->mesh()))
      world_ = nullptr;
    else add(*expression);
  }
  key_ += static_cast<char>('0' + (options.zeros ? 1 : 0) + (options.retain_graph ? 2 : 0));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    put(outputs[i].lazy);
    if (seeds[i].lazy != nullptr) put(seeds[i].lazy);
    else key_ += '-';
  }
  key_ += '|';
  for (const Parameter& parameter : targets.parameters) put(parameter);
  for (const Tensor& leaf : targets.leaves) put(leaf.lazy);
  if (world_ == nullptr || placed == expressions.end()) return;
  const WorldLock lock(*world_);
  for (const Parameter& parameter : parameters_) {
    const auto variable = world_->variables.find(parameter);
    if (variable == world_->variables.by_key.end() || variable->second.mesh == (*placed)->mesh()) continue;
    world_ = nullptr;
    return;
  }
}

void NumberedRecord::add(const Expression& expression) {
  parts_.emplace(&expression, parts_.size());
  key_ += expression.shared != nullptr ? expression.shared->key : key_of(expression.graph());
  key_ += ';';
  for (const auto& operand : expression.operands) put(operand);
  for (const Parameter& parameter : expression.trace.parameters()) put(parameter);
  for (const Variable& variable : expression.graph().variables) key::put(key_, variable.read.index);
  for (const auto& weak_value : expression.values) {
    const auto value = weak_value.lock();
    if (value == nullptr || value->record().expression.get() != &expression) continue;
    put(value);
    if (world_ == nullptr) return;
  }
  for (const auto& [id, value] : expression.saved_values()) {
    key::put(key_, id.index);
    put(value);
  }
}

void NumberedRecord::put(const std::shared_ptr<LazyValue>& value) {
  const auto [number, is_new] = numbers_.emplace(value.get(), values_.size());
  key::put(key_, number->second);
  if (!is_new) return;
  values_.push_back(value);
  key::put(key_, identities_.emplace(value->identity(), identities_.size()).first->second);
  key::put(key_, value->type.dtype, value->type.shape);
  const auto record = value->record();
  const auto part = parts_.find(record.expression.get());
  key::put(key_, part == parts_.end() ? parts_.size() : part->second);
  key::put(key_, part == parts_.end() ? 0 : static_cast<std::size_t>(record.id.index));
  key_ += static_cast<char>((exists(*value) ? 1 : 0) | (value->handle.expired() ? 2 : 0) |
                            (value->producer() == nullptr ? 4 : 0));
  if (!value->gradient_hooks().empty()) world_ = nullptr;
}

void NumberedRecord::put(const Parameter& parameter) {
  const auto known = std::find(parameters_.begin(), parameters_.end(), parameter);
  key::put(key_, static_cast<std::size_t>(known - parameters_.begin()));
  if (known != parameters_.end()) return;
  parameters_.push_back(parameter);
  key::put(key_, parameter.dtype(), parameter.shape());
}

std::optional<std::vector<Tensor>> NumberedRecord::find(const SourceLine& where) const {
  if (world_ == nullptr) return std::nullopt;
  const auto graph = world_->gradient_graphs.find(key_);
  if (graph == nullptr) return std::nullopt;
  return at_line(where, [&](Trace& t) { return write(t, *graph); });
}

std::vector<Tensor> NumberedRecord::write(Trace& t, const GradientGraph& graph) const {
  Expression& expression = *t.expression;
  expression.join_world(world_);
  for (const auto& recorded : expressions_)
    if (recorded->has_mesh) expression.place_on(world_, recorded->mesh());
  std::vector<Parameter> read;
  for (std::size_t number : graph.graph->parameters) {
    read.push_back(parameters_[number]);
    require_unchanged(read.back(), expressions_);
    expression.place_with(read.back());
  }
  t.set_parameters(std::move(read));
  for (std::size_t number : graph.operands) expression.bind(values_[number]);
  expression.share(graph.graph);
  for (const auto& [number, id] : graph.moved) {
    values_[number]->move_to(expression.shared_from_this(), id);
    expression.values.push_back(values_[number]);
  }
  for (const GradientGraph::Copy& copy : graph.copies)
    expression.copies.push_back({copy.id, expressions_[copy.part]->weak_from_this(), copy.record_id});
  std::vector<Tensor> out;
  for (ValueId id : graph.gradients) out.push_back(id.valid() ? t.tensor(id) : Tensor());
  return out;
}

void NumberedRecord::add(const JoinedGraph::Written& written, const std::vector<Tensor>& gradients) const {
  if (world_ == nullptr) return;
  const Expression& expression = *written.expression;
  GradientGraph out;
  for (const Tensor& gradient : gradients) out.gradients.push_back(gradient.id);
  const auto number_of = [&](const std::shared_ptr<LazyValue>& value) {
    const auto number = numbers_.find(value.get());
    return number == numbers_.end() ? values_.size() : number->second;
  };
  for (const auto& operand : expression.operands) out.operands.push_back(number_of(operand));
  for (const auto& [value, id] : written.moved) out.moved.emplace_back(number_of(value), id);
  for (const Expression::Copy& copy : expression.copies)
    out.copies.push_back({copy.id, parts_.at(copy.record.lock().get()), copy.record_id});
  const auto is_unknown = [&](std::size_t number) { return number == values_.size(); };
  if (std::any_of(out.operands.begin(), out.operands.end(), is_unknown) ||
      std::any_of(out.moved.begin(), out.moved.end(), [&](const auto& value) { return is_unknown(value.first); }))
    return;
  auto graph = std::make_shared<SharedGraph>(shared_graph(expression.trace.graph));
  for (const Parameter& parameter : expression.trace.parameters()) {
    const auto known = std::find(parameters_.begin(), parameters_.end(), parameter);
    if (known == parameters_.end()) return;
    graph->parameters.push_back(static_cast<std::size_t>(known - parameters_.begin()));
  }
  const std::size_t nodes = graph->graph.nodes.size();
  out.graph = std::move(graph);
  world_->gradient_graphs.add(key_, std::make_shared<const GradientGraph>(std::move(out)), nodes);
}

}  // namespace karez
