// Implements backward: joins the recorded expressions, adds their gradients, and keeps what the gradients need.
#include "karez/api/interactive.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

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

using Expressions = std::vector<std::shared_ptr<const Expression>>;

const LazyValue& outside(const Tensor& tensor, std::string_view what) {
  require(tensor.lazy != nullptr, what, ": a tensor ", tensor.type, " of a program that is being traced has no record");
  return *tensor.lazy;
}

// The recorded expressions on which the outputs depend, each after those that make its operands.
Expressions recorded_expressions(const std::vector<Tensor>& outputs) {
  Expressions out;
  std::map<const Expression*, bool> visited;
  std::vector<std::pair<std::shared_ptr<const Expression>, std::size_t>> stack;  // with the next operand to visit
  const auto push = [&](const LazyValue& value) {
    require(!value.is_released(), "backward: the record of a value ", value.type,
            " was released by an earlier call; pass retain_graph=True to that call if another one follows");
    if (auto record = value.record(); record.expression != nullptr && !visited[record.expression.get()]) {
      visited[record.expression.get()] = true;
      stack.emplace_back(std::move(record.expression), 0);
    }
  };
  for (const Tensor& output : outputs) {
    push(outside(output, "backward"));
    while (!stack.empty()) {
      auto& [expression, next] = stack.back();
      if (next < expression->operands.size()) {
        push(*expression->operands[next++]);
      } else {
        out.push_back(std::move(expression));
        stack.pop_back();
      }
    }
  }
  return out;
}

// Operands that are not recorded, do not exist yet and need values of the record, such as x.detach() * 2. The program
// of the gradients also computes values of the record, so these operands cannot wait for it, and the program for them.
LazyValues operands_to_run(const Expressions& expressions) {
  std::map<const LazyValue*, bool> needs_record;  // of the values that were visited
  const std::function<bool(const LazyValue&)> visit = [&](const LazyValue& value) {
    if (value.requires_gradient()) return true;
    const auto producer = value.producer();
    if (producer == nullptr) return false;
    if (const auto found = needs_record.find(&value); found != needs_record.end()) return found->second;
    const bool out = std::any_of(producer->operands.begin(), producer->operands.end(),
                                 [&](const auto& operand) { return visit(*operand); });
    return needs_record[&value] = out;
  };
  LazyValues out;
  for (const auto& expression : expressions)
    for (const auto& operand : expression->operands)
      if (!operand->requires_gradient() && operand->producer() != nullptr && visit(*operand)) out.push_back(operand);
  return out;
}

// The joined expressions with their gradients. Nothing runs: the graph only shows which values the gradients need.
class JoinedGraph {
 public:
  explicit JoinedGraph(const Expressions& expressions) : expressions_(expressions) {
    for (const auto& expression : expressions) {
      if (!expression->has_mesh) continue;
      scratch_->place_on(world_of(*expression), expression->mesh());
      break;
    }
  }

  void build(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds, const GradientTargets& targets) {
    Trace& t = scratch_->trace;
    const Trace::Scope scope(t);
    for (const auto& expression : expressions_) add(*expression);
    std::vector<ValueId> wrt;
    for (const Parameter& parameter : targets.parameters) wrt.push_back(read(parameter));
    for (const Tensor& leaf : targets.leaves) wrt.push_back(value_of(leaf.lazy));
    ValueId loss;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const ValueId term = weighted_sum(outputs[i], seeds[i]);
      loss = loss.valid() ? build::add(t.builder, loss, build::cast(t.builder, term, t.graph.type(loss).dtype)) : term;
    }
    gradients_ = ops::gradient(t.builder, loss, wrt);
  }

  // Writes the gradients, and values of the record that the user can read and that do not exist yet, into the open
  // expression. Values that exist become operands.
  std::vector<Tensor> write(Trace& t) const {
    const Graph& graph = scratch_->trace.graph;
    Expression& expression = *t.expression;
    if (scratch_->has_mesh) expression.place_on(world_of(*scratch_), scratch_->mesh());
    std::vector<std::pair<std::shared_ptr<LazyValue>, ValueId>> pending;
    for (const auto& [value, id] : values_)
      if (!exists(*value) && !value->handle.expired() && value->producer() != nullptr) pending.emplace_back(value, id);
    std::vector<ValueId> roots = gradients_;
    for (const auto& [value, id] : pending) roots.push_back(id);
    const ById<ValueId, bool> needed = needed_from(roots);
    require_unchanged(needed);
    ById<ValueId, ValueId> new_ids(graph.values.size());
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
      if (node.op->role == Role::state) new_ids[node.outputs[0]] = t.read(parameters_.at(node.outputs[0]));
      else write_node(t, graph, node, new_ids);
    }
    for (const auto& [value, id] : pending) {
      value->move_to(expression.shared_from_this(), new_ids[id]);
      expression.values.push_back(value);
    }
    std::vector<Tensor> out;
    for (const ValueId id : gradients_) out.push_back(t.tensor(new_ids[id]));
    return out;
  }

 private:
  static bool exists(const LazyValue& value) { return value.host.valid() || value.array().valid(); }

  void add(const Expression& expression) {
    require(!expression.has_mesh || !scratch_->has_mesh || expression.mesh() == scratch_->mesh(),
            "backward: the record has values on two meshes, ", sbp::print(expression.mesh()), " and ",
            sbp::print(scratch_->mesh()), "; compute them on one mesh, or compile a function of them");
    std::vector<ValueId> operands;
    for (const auto& operand : expression.operands) operands.push_back(value_of(operand));
    const auto saved = [&](const Parameter& parameter) {
      for (const auto& [owner, value] : expression.saved_reads)
        if (owner == parameter && value.lazy != nullptr) return value_of(value.lazy);
      return read(parameter);
    };
    const ById<ValueId, ValueId> new_ids = write_nodes(scratch_->trace, expression, operands, saved);
    for (const auto& weak_value : expression.values) {
      const auto value = weak_value.lock();
      if (value == nullptr) continue;
      const auto record = value->record();
      if (record.expression.get() != &expression) continue;
      ids_[value.get()] = new_ids[record.id];
      values_.emplace_back(value, new_ids[record.id]);
      if (exists(*value)) existing_[new_ids[record.id]] = value;
    }
  }

  // A value of the record, or an operand from outside of the record.
  ValueId value_of(const std::shared_ptr<LazyValue>& value) {
    const auto [at, is_new] = ids_.emplace(value.get(), ValueId());
    if (is_new) {
      at->second = build::input(scratch_->trace.builder, cat("operand", existing_.size()), value->type);
      existing_[at->second] = value;
    }
    return at->second;
  }

  ValueId read(const Parameter& parameter) {
    const ValueId id = scratch_->trace.read(parameter);
    parameters_.emplace(id, parameter);
    return id;
  }

  ValueId weighted_sum(const Tensor& output, const Tensor& seed) {
    Builder& b = scratch_->trace.builder;
    require(ErrorKind::type, is_float(output.dtype()), "backward: expected a float tensor, got ", output.type);
    ValueId id = value_of(output.lazy);
    if (seed.lazy == nullptr) {
      require(
          ErrorKind::shape, output.type.count() == 1, "backward: a tensor ", output.type,
          " of more than one element needs the gradient with respect to its elements: backward(gradient), or a sum");
    } else {
      require(ErrorKind::shape, seed.shape() == output.shape(), "backward: the gradient ", seed.type,
              " must have the shape of the tensor ", output.type);
      id = build::mul(b, id, build::cast(b, value_of(seed.lazy), output.dtype()));
    }
    Ints axes(output.shape().size());
    for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
    return axes.empty() ? id : build::reduce_sum(b, id, axes);
  }

  ById<ValueId, bool> needed_from(const std::vector<ValueId>& roots) const {
    const Graph& graph = scratch_->trace.graph;
    ById<ValueId, bool> needed(graph.values.size());
    std::vector<ValueId> stack = roots;
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

  void require_unchanged(const ById<ValueId, bool>& needed) const {
    for (const auto& [id, parameter] : parameters_) {
      if (!needed[id]) continue;
      for (const auto& expression : expressions_)
        for (const auto& [read_parameter, writes] : expression->reads)
          require(read_parameter != parameter || writes == parameter.writes(), "backward: parameter '",
                  parameter.name(), "' was written after the computation that is recorded read it; call backward ",
                  "before the write");
    }
  }

  const Expressions& expressions_;
  std::shared_ptr<Expression> scratch_ = std::make_shared<Expression>();
  std::map<const LazyValue*, ValueId> ids_;
  std::vector<std::pair<std::shared_ptr<LazyValue>, ValueId>> values_;  // of the record
  std::map<ValueId, std::shared_ptr<LazyValue>> existing_;
  std::map<ValueId, Parameter> parameters_;
  std::vector<ValueId> gradients_;
};

}  // namespace

namespace {

// Other tensors may refer to the same value, and are no leaves.
void set_leaf(Tensor& tensor, std::shared_ptr<const void> identity) {
  const LazyValue& value = *tensor.lazy;
  Tensor out;
  out.type = tensor.type;
  if (value.host.valid()) out.lazy = std::make_shared<LazyValue>(tensor.type, value.host, value.batch_rows);
  else out.lazy = std::make_shared<LazyValue>(tensor.type, tensor.array());
  out.handle = out.lazy;
  out.lazy->set_leaf(std::move(identity));
  tensor = std::move(out);
}

}  // namespace

void require_gradient(Tensor& tensor, bool enabled) {
  const LazyValue& value = outside(tensor, "requires_grad");
  require(ErrorKind::type, !enabled || is_float(tensor.dtype()),
          "requires_grad: only float tensors have gradients, got ", tensor.type);
  require(is_leaf(tensor), "requires_grad: a tensor ", tensor.type,
          " that was computed from others requires a gradient if these do; call detach() to end that");
  if (enabled != (value.leaf() != nullptr)) set_leaf(tensor, enabled ? std::make_shared<char>() : nullptr);
}

void replace_leaf(Tensor& tensor, const Tensor& leaf) {
  outside(tensor, "a write");
  set_leaf(tensor, leaf.lazy->leaf());
}

bool requires_gradient(const Tensor& tensor) { return tensor.lazy != nullptr && tensor.lazy->requires_gradient(); }
bool is_leaf(const Tensor& tensor) {
  return tensor.lazy != nullptr && !tensor.lazy->is_released() && tensor.lazy->record().expression == nullptr;
}
const void* leaf_identity(const Tensor& tensor) { return tensor.lazy == nullptr ? nullptr : tensor.lazy->leaf().get(); }

GradientTargets gradient_targets(const std::vector<Tensor>& outputs) {
  GradientTargets out;
  std::map<const LazyValue*, bool> visited;
  const auto add_leaf = [&](const std::shared_ptr<LazyValue>& value) {
    if (value->leaf() == nullptr || std::exchange(visited[value.get()], true)) return;
    Tensor leaf;
    leaf.type = value->type;
    leaf.lazy = value;
    out.leaves.push_back(std::move(leaf));
  };
  for (const auto& expression : recorded_expressions(outputs)) {
    for (const auto& operand : expression->operands) add_leaf(operand);
    for (const Parameter& parameter : expression->trace.parameters())
      if (is_float(parameter.dtype()) &&
          std::find(out.parameters.begin(), out.parameters.end(), parameter) == out.parameters.end())
        out.parameters.push_back(parameter);
  }
  for (const Tensor& output : outputs) add_leaf(output.lazy);
  return out;
}

std::vector<Tensor> backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                             const GradientTargets& targets, const BackwardOptions& options, SourceLine where) {
  require(!tracing(), "backward: a compiled function takes gradients with grad");
  require(outputs.size() == seeds.size(), "backward: expected a seed for each of ", outputs.size(), " outputs, got ",
          seeds.size());
  require(std::any_of(outputs.begin(), outputs.end(), requires_gradient), "backward: no output requires a gradient: ",
          "none depends on a parameter or leaf through computations that were recorded");
  for (const Tensor& leaf : targets.leaves)
    require(requires_gradient(leaf), "backward: a tensor ", leaf.type,
            " requires no gradient; make it with requires_grad=True before the computation");
  const Expressions expressions = recorded_expressions(outputs);
  LazyValues first = operands_to_run(expressions);
  for (const Tensor& seed : seeds)
    if (seed.lazy != nullptr && seed.lazy->producer() != nullptr) first.push_back(seed.lazy);
  run(first, where);
  JoinedGraph joined(expressions);
  std::optional<NoGrad> no_grad;
  if (!options.create_graph) no_grad.emplace();
  std::vector<Tensor> out = at_line(where, [&](Trace& t) {
    joined.build(outputs, seeds, targets);
    return joined.write(t);
  });
  no_grad.reset();
  if (options.retain_graph || options.create_graph) return out;
  for (const auto& expression : expressions)
    for (const auto& weak_value : expression->values)
      if (const auto value = weak_value.lock(); value != nullptr && value->record().expression == expression)
        value->release_record();
  return out;
}

}  // namespace karez
