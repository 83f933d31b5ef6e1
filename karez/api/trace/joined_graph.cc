// Implements JoinedGraph: adds gradients to the joined expressions, and writes what the gradients need.
#include "karez/api/trace/joined_graph.h"

#include <algorithm>
#include <iterator>

#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/expression_program.h"
#include "karez/base/text.h"
#include "karez/ops/compose.h"
#include "karez/ops/gradient.h"

namespace karez {
namespace {

bool exists(const LazyValue& value) { return value.host.valid() || value.array().valid(); }

Tensor tensor_of(const std::shared_ptr<LazyValue>& value) {
  Tensor out;
  out.type = value->type;
  out.lazy = value;
  out.handle = value->handle.lock();
  return out;
}

// The value of an expression with a hook. If no tensor has it any more, it is made again: its record connects it with
// the operands of the hook.
std::shared_ptr<LazyValue> recorded_value(const Expression& expression, ValueId id) {
  for (const auto& weak_value : expression.values)
    if (auto value = weak_value.lock(); value != nullptr && value->record().id == id) return value;
  auto out = std::make_shared<LazyValue>(expression.graph().type(id), id, expression.shared_from_this());
  out->set_record({expression.shared_from_this(), id});
  return out;
}

// A kept value as one that gradients flow through. The kept value itself has no record, because its record owns it.
std::shared_ptr<LazyValue> with_record(const Expression& expression, ValueId id, const LazyValue& value) {
  auto out = std::make_shared<LazyValue>(value.type, value.array());
  if (is_float(value.type.dtype) && expression.passes_gradient(id))
    out->set_record({expression.shared_from_this(), id});
  return out;
}

}  // namespace

JoinedGraph::JoinedGraph(const Expressions& expressions, const BackwardOptions& options, SourceLine where)
    : expressions_(expressions),
      create_graph_(options.create_graph),
      retain_graph_(options.retain_graph || options.create_graph),
      zeros_(options.zeros),
      where_(where) {
  for (const auto& expression : expressions) {
    if (!expression->has_mesh) continue;
    scratch_->place_on(world_of(*expression), expression->mesh());
    break;
  }
}

std::vector<Tensor> JoinedGraph::gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                                           const GradientTargets& targets) {
  std::vector<ValueId> out;
  {
    const Trace::Scope scope(scratch_->trace);
    out = build(outputs, seeds, targets);
  }
  std::vector<ValueId> roots;
  std::copy_if(out.begin(), out.end(), std::back_inserter(roots), [](ValueId id) { return id.valid(); });
  const std::vector<Tensor> written = write(roots, false);
  std::vector<Tensor> gradients;
  auto next = written.begin();
  for (const ValueId id : out) gradients.push_back(id.valid() ? *next++ : Tensor());
  return gradients;
}

std::vector<ValueId> JoinedGraph::build(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                                        const GradientTargets& targets) {
  Trace& t = scratch_->trace;
  for (const auto& expression : expressions_) add(*expression);
  std::vector<ValueId> wrt;
  for (const Parameter& parameter : targets.parameters) wrt.push_back(read(parameter));
  for (const Tensor& leaf : targets.leaves) wrt.push_back(value_of(leaf.lazy));
  ValueId loss;
  std::vector<ValueId> stops;  // seeds are weights, even if they depend on the targets
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId term = weighted_sum(outputs[i], seeds[i], stops);
    loss = loss.valid() ? build::add(t.builder, loss, build::cast(t.builder, term, t.graph.type(loss).dtype)) : term;
  }
  for (const auto& [value, id] : ids_) {
    for (const auto& hook : value->gradient_hooks()) {
      if (*hook == nullptr) continue;
      const auto replace = [this, hook = hook](ValueId gradient) {
        const ValueId given[] = {gradient};
        Tensor replaced;
        {
          const Trace::Scope outside(nullptr);
          replaced = *hook == nullptr ? Tensor() : (*hook)(tensors_of(given)[0]);
        }
        return replaced.lazy == nullptr ? gradient : value_of(replaced.lazy);
      };
      value_hooks_.push_back({.value = id, .replace = replace});
    }
  }
  if (create_graph_) {
    for (const auto& [value, id] : values_)
      if (!value->gradient_hooks().empty()) existing_[id] = value;
    run_existing();
  }
  return ops::gradient(t.builder, loss, wrt,
                       {.stops = stops,
                        .hooks = hooks_,
                        .value_hooks = value_hooks_,
                        .before_hook =
                            [this](auto gradients) {
                              const Trace::Scope outside(nullptr);
                              write(gradients, true);
                            },
                        .zeros = zeros_});
}

// Values of the record that a tensor has are about to be moved to the expression of the gradients, which has these
// values as operands.
void JoinedGraph::run_existing() {
  LazyValues uncomputed;
  for (const auto& [id, value] : existing_)
    if (value->requires_gradient() && value->producer() != nullptr) uncomputed.push_back(value);
  const Trace::Scope outside(nullptr);
  run(uncomputed, where_);
}

std::vector<Tensor> JoinedGraph::write(std::span<const ValueId> roots, bool for_hook) {
  return at_line(where_, [&](Trace& t) { return write_into(t, roots, for_hook); });
}

std::vector<Tensor> JoinedGraph::write_into(Trace& t, std::span<const ValueId> roots, bool for_hook) {
  const Graph& graph = scratch_->trace.graph;
  Expression& expression = *t.expression;
  if (scratch_->has_mesh) expression.place_on(world_of(*scratch_), scratch_->mesh());
  std::vector<std::pair<std::shared_ptr<LazyValue>, ValueId>> pending;
  for (const auto& [value, id] : values_)
    if (existing_.count(id) == 0 && !value->handle.expired() && value->producer() != nullptr)
      pending.emplace_back(value, id);
  std::vector<ValueId> all_roots(roots.begin(), roots.end());
  for (const auto& [value, id] : pending) all_roots.push_back(id);
  const ById<ValueId, bool> needed = needed_from(all_roots);
  require_unchanged(needed);
  ById<ValueId, ValueId> new_ids(graph.values.size());
  std::vector<ValueId> written;
  for (const Node& node : graph.nodes) {
    bool is_needed = false;
    for (const ValueId id : node.outputs) {
      if (!needed[id]) continue;
      if (const auto existing = existing_.find(id); existing != existing_.end())
        new_ids[id] = expression.operand(existing->second);
      else is_needed = true;
    }
    if (!is_needed) continue;
    ScopedValue where(t.builder.where, node.where), path(t.builder.path, node.path);
    if (node.op->role == Role::state) {
      new_ids[node.outputs[0]] = t.read(parameters_.at(node.outputs[0]));
      continue;
    }
    write_node(t, graph, node, new_ids);
    for (const ValueId id : node.outputs)
      if (needed[id]) written.push_back(id);
  }
  last_ = {expression.shared_from_this(), {}};
  for (const auto& [value, id] : pending) {
    last_.moved.emplace_back(value, new_ids[id]);
    value->move_to(expression.shared_from_this(), new_ids[id]);
    expression.values.push_back(value);
    if (for_hook) existing_[id] = value;
  }
  std::vector<Tensor> out;
  for (const ValueId id : roots) {
    const auto existing = existing_.find(id);
    out.push_back(existing != existing_.end() && !written_.empty() ? tensor_of(existing->second)
                                                                   : t.tensor(new_ids[id]));
  }
  if (!for_hook) {
    if (retain_graph_) keep_copies(expression, written, new_ids);
    return out;
  }
  for (const ValueId id : written) {
    if (existing_.count(id) > 0) continue;
    written_.push_back(t.tensor(new_ids[id]));
    existing_[id] = written_.back().lazy;
  }
  return out;
}

// Another call of backward reads what this one computes.
void JoinedGraph::keep_copies(Expression& expression, std::span<const ValueId> written,
                              const ById<ValueId, ValueId>& new_ids) const {
  const Graph& graph = scratch_->trace.graph;
  ById<ValueId, bool> is_read(graph.values.size());  // by nodes of the gradients, which come last
  for (const Node& node : graph.nodes)
    if (recorded_.count(node.outputs[0]) == 0)
      for (const ValueId id : node.inputs) is_read[id] = true;
  for (const ValueId id : written) {
    const auto record = recorded_.find(id);
    if (record == recorded_.end() || !is_read[id]) continue;
    expression.copies.push_back({new_ids[id], record->second.first->weak_from_this(), record->second.second});
  }
}

void JoinedGraph::add(const Expression& expression) {
  std::vector<ValueId> operands;
  for (const auto& operand : expression.operands) operands.push_back(value_of(operand));
  const auto saved = [&](const Parameter& parameter) {
    for (const auto& [owner, value] : expression.saved_reads)
      if (owner == parameter && value.lazy != nullptr) return value_of(value.lazy);
    return read(parameter);
  };
  const ById<ValueId, ValueId> new_ids = write_nodes(scratch_->trace, expression, operands, saved);
  added_.emplace(&expression, new_ids);
  for (const auto& weak_value : expression.values) {
    const auto value = weak_value.lock();
    if (value == nullptr) continue;
    const auto record = value->record();
    if (record.expression.get() != &expression) continue;
    ids_[value.get()] = new_ids[record.id];
    values_.emplace_back(value, new_ids[record.id]);
    if (exists(*value)) existing_[new_ids[record.id]] = value;
  }
  for (const auto& [id, value] : expression.saved_values())
    existing_[new_ids[id]] = create_graph_ ? with_record(expression, id, *value) : value;
  for (std::size_t v = 0; v < new_ids.size(); ++v)
    if (const ValueId id(v); new_ids[id].valid()) recorded_.try_emplace(new_ids[id], &expression, id);
  if (expression.hook != nullptr) add_hooks(expression, new_ids);
}

void JoinedGraph::add_hooks(const Expression& expression, const ById<ValueId, ValueId>& new_ids) {
  const std::shared_ptr<const ModuleHook> hook = expression.hook;
  ops::GradientHook out;
  std::vector<std::shared_ptr<LazyValue>> copies;
  for (const Node& node : expression.graph().nodes) {
    if (node.op->role == Role::source || node.op->role == Role::state) continue;
    copies.push_back(recorded_value(expression, node.outputs[0]));
    out.outputs.push_back(new_ids[node.outputs[0]]);
    if (create_graph_) existing_[out.outputs.back()] = copies.back();
  }
  for (const Tensor& input : hook->inputs) {
    const ValueId id = value_of(input.lazy);
    if (scratch_->trace.graph.node(scratch_->trace.graph.value(id).producer).op->role == Role::source) continue;
    out.inputs.push_back(id);
    if (create_graph_) existing_[id] = input.lazy;
  }
  for (const Tensor& operand : hook->operands) out.operands.push_back(value_of(operand.lazy));
  out.replace_inputs = [this, hook](std::span<const ValueId> gradients) {
    const Trace::Scope outside(nullptr);
    return ids_of(hook->replace_inputs(tensors_of(gradients)));
  };
  out.replace_outputs = [this, hook, copies](std::span<const ValueId> gradients) {
    const Trace::Scope outside(nullptr);
    std::vector<Tensor> outputs;
    for (const auto& copy : copies) outputs.push_back(tensor_of(copy));
    return ids_of(hook->replace_outputs(outputs, tensors_of(gradients)));
  };
  hooks_.push_back(std::move(out));
}

std::vector<Tensor> JoinedGraph::tensors_of(std::span<const ValueId> ids) {
  std::vector<Tensor> out;
  for (const ValueId id : ids) out.push_back(id.valid() ? tensor_of(existing_.at(id)) : Tensor());
  return out;
}

std::vector<ValueId> JoinedGraph::ids_of(const std::vector<Tensor>& tensors) {
  std::vector<ValueId> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.lazy == nullptr ? ValueId() : value_of(tensor.lazy));
  return out;
}

ValueId JoinedGraph::value_of(const std::shared_ptr<LazyValue>& value) {
  const auto [at, is_new] = ids_.emplace(value.get(), ValueId());
  if (!is_new) return at->second;
  const auto record = value->record();
  if (const auto added = added_.find(record.expression.get()); added != added_.end()) {
    at->second = added->second[record.id];  // no tensor has the value
    if (exists(*value)) existing_.try_emplace(at->second, value);
  } else {
    at->second = build::input(scratch_->trace.builder, cat("operand", ids_.size()), value->type);
    existing_[at->second] = value;
  }
  return at->second;
}

ValueId JoinedGraph::read(const Parameter& parameter) {
  for (const auto& [id, known] : parameters_)
    if (known == parameter) return id;
  ValueId id;
  if (is_stored_on_another_mesh(parameter)) {
    const Trace::Scope outside(nullptr);
    id = value_of(adjacent_copies({Term(parameter, where_)})[0].lazy);
  } else {
    id = scratch_->trace.read(parameter);
  }
  parameters_.emplace(id, parameter);
  return id;
}

bool JoinedGraph::is_stored_on_another_mesh(const Parameter& parameter) const {
  if (!scratch_->has_mesh) return false;
  const std::shared_ptr<WorldState> world = world_of(*scratch_);
  const WorldLock lock(*world);
  const auto variable = world->variables.find(parameter);
  return variable != world->variables.by_key.end() && variable->second.mesh != scratch_->mesh();
}

ValueId JoinedGraph::weighted_sum(const Tensor& output, const Tensor& seed, std::vector<ValueId>& stops) {
  Builder& b = scratch_->trace.builder;
  require(ErrorKind::type, is_float(output.dtype()), "backward: expected a float tensor, got ", output.type);
  ValueId id = value_of(output.lazy);
  if (seed.lazy == nullptr) {
    require(ErrorKind::shape, output.type.count() == 1, "backward: a tensor ", output.type,
            " of more than one element needs the gradient with respect to its elements: backward(gradient), or a sum");
  } else {
    require(ErrorKind::shape, seed.shape() == output.shape(), "backward: the gradient ", seed.type,
            " must have the shape of the tensor ", output.type);
    stops.push_back(build::reshape(b, build::cast(b, value_of(seed.lazy), output.dtype()), Shape(output.shape())));
    id = build::mul(b, id, stops.back());
  }
  Ints axes(output.shape().size());
  for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
  return axes.empty() ? id : build::reduce_sum(b, id, axes);
}

ById<ValueId, bool> JoinedGraph::needed_from(std::span<const ValueId> roots) const {
  const Graph& graph = scratch_->trace.graph;
  ById<ValueId, bool> needed(graph.values.size());
  std::vector<ValueId> stack(roots.begin(), roots.end());
  while (!stack.empty()) {
    const ValueId id = stack.back();
    stack.pop_back();
    if (needed[id]) continue;
    needed[id] = true;
    if (existing_.count(id) > 0 || !graph.value(id).producer.valid()) continue;
    const Node& node = graph.node(graph.value(id).producer);
    stack.insert(stack.end(), node.inputs.begin(), node.inputs.end());
  }
  return needed;
}

void JoinedGraph::require_unchanged(const ById<ValueId, bool>& needed) const {
  for (const auto& [id, parameter] : parameters_)
    if (needed[id]) karez::require_unchanged(parameter, expressions_);
}

void require_unchanged(const Parameter& parameter, const Expressions& expressions) {
  for (const auto& expression : expressions)
    for (const auto& [read_parameter, writes] : expression->reads)
      require(read_parameter != parameter || writes == parameter.writes(), "backward: parameter '", parameter.name(),
              "' was written after the computation that is recorded read it; call backward before the write");
}

}  // namespace karez
