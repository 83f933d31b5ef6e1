// Implements backward: joins the recorded expressions, adds their gradients, and keeps what the gradients need.
#include "karez/api/interactive.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/joined_graph.h"
#include "karez/api/trace/shared_gradients.h"

namespace karez {
namespace {

const LazyValue& outside(const Tensor& tensor, std::string_view what) {
  require(tensor.lazy != nullptr, what, ": a tensor ", tensor.type, " of a program that is being traced has no record");
  return *tensor.lazy;
}

// The recorded expressions on which the outputs depend, in the order of the user's calls: hooks are called in the
// reverse of this order, as in PyTorch.
Expressions recorded_expressions(const std::vector<Tensor>& outputs) {
  Expressions out;
  std::set<const Expression*> visited;
  const auto visit = [&](const LazyValue& value) {
    require(!value.is_released(), "backward: the record of a value ", value.type,
            " was released by an earlier call; pass retain_graph=True to that call if another one follows");
    if (auto record = value.record(); record.expression != nullptr && visited.insert(record.expression.get()).second)
      out.push_back(std::move(record.expression));
  };
  for (const Tensor& output : outputs) visit(outside(output, "backward"));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Expression& expression = *out[i];
    for (std::size_t k = 0; expression.record_operand(k) != nullptr; ++k) visit(*expression.record_operand(k));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a->trace.number() < b->trace.number(); });
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

// Other tensors may refer to the same value, and are no leaves.
void set_leaf(Tensor& tensor, std::shared_ptr<const void> identity, const LazyValue::GradientHooks& hooks) {
  const LazyValue& value = *tensor.lazy;
  Tensor out;
  out.type = tensor.type;
  if (value.host.valid()) out.lazy = std::make_shared<LazyValue>(tensor.type, value.host, value.batch_rows);
  else out.lazy = std::make_shared<LazyValue>(tensor.type, tensor.array());
  out.handle = out.lazy;
  if (identity != nullptr) out.lazy->set_gradient_hooks(hooks);
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
  if (enabled != (value.leaf() != nullptr)) set_leaf(tensor, enabled ? std::make_shared<char>() : nullptr, {});
}

void replace_leaf(Tensor& tensor, const Tensor& leaf) {
  outside(tensor, "a write");
  set_leaf(tensor, leaf.lazy->leaf(), leaf.lazy->gradient_hooks());
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
    for (std::size_t i = 0; expression->record_operand(i) != nullptr; ++i) add_leaf(expression->record_operand(i));
    for (const Parameter& parameter : expression->trace.parameters())
      if (is_float(parameter.dtype()) &&
          std::find(out.parameters.begin(), out.parameters.end(), parameter) == out.parameters.end())
        out.parameters.push_back(parameter);
  }
  for (const Tensor& output : outputs) add_leaf(output.lazy);
  return out;
}

namespace {

std::vector<Tensor> shared_gradients(const Expressions& expressions, const std::vector<Tensor>& outputs,
                                     const std::vector<Tensor>& seeds, const GradientTargets& targets,
                                     const BackwardOptions& options, const SourceLine& where) {
  const NumberedRecord record(expressions, outputs, seeds, targets, options);
  if (auto known = record.find(where)) return std::move(*known);
  JoinedGraph joined(expressions, options, where);
  std::vector<Tensor> out = joined.gradients(outputs, seeds, targets);
  record.add(joined.written(), out);
  return out;
}

// Runs expressions that read parameters without a layout on several devices. The programs that compute them choose the
// layouts, in which the gradients will be.
void store_parameters(const Expressions& expressions, const std::vector<Parameter>& parameters,
                      const SourceLine& where) {
  LazyValues values;
  for (const auto& expression : expressions) {
    if (!expression->has_mesh || expression->mesh().size() == 1) continue;
    const auto world = world_of(*expression);
    const WorldLock lock(*world);
    for (const Parameter& parameter : expression->trace.parameters())
      if (std::find(parameters.begin(), parameters.end(), parameter) != parameters.end() &&
          !world->variables.contains(parameter))
        for (auto& value : expression->pending_values()) values.push_back(std::move(value));
  }
  run(values, where);
}

}  // namespace

Tensor in_layout_of(const Parameter& parameter, const Tensor& gradient, SourceLine where) {
  if (gradient.lazy == nullptr) return gradient;
  const auto producer = gradient.lazy->producer();
  const Array array = producer == nullptr ? gradient.lazy->array() : Array();
  std::shared_ptr<WorldState> world;
  if (array.valid()) world = ArrayValue::of(array).living_world();
  else if (producer != nullptr && producer->has_world) world = world_of(*producer);
  if (world == nullptr) return gradient;
  const auto is_stored_on = [](const StoredVariable& stored, const Mesh& mesh, const Layout* layout) {
    return stored.mesh == mesh && (mesh.size() == 1 || (layout != nullptr && *layout == stored.layout));
  };
  Mesh mesh;
  Layout layout;
  {
    const WorldLock lock(*world);
    const auto variable = world->variables.find(parameter);
    if (variable == world->variables.by_key.end()) return gradient;
    const StoredVariable& stored = variable->second;
    if (array.valid() ? is_stored_on(stored, array.mesh(), &array.layout())
                      : producer->has_mesh && is_stored_on(stored, producer->mesh(), nullptr))
      return gradient;
    mesh = stored.mesh, layout = stored.layout;
  }
  return at_line(where, [&](Trace& t) {
    t.expression->place_on(world, mesh);
    const ValueId out = t.builder.one("layout", {t.value(Term(gradient, where))});
    t.graph.value(out).layout = layout;
    return t.tensor(out);
  });
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
  const auto with_mesh =
      std::find_if(expressions.begin(), expressions.end(), [](const auto& expression) { return expression->has_mesh; });
  for (const auto& expression : expressions)
    if (expression->has_mesh && expression->mesh() != (*with_mesh)->mesh())
      for (auto& value : expression->pending_values()) first.push_back(std::move(value));
  for (const Tensor& seed : seeds)
    if (seed.lazy != nullptr && seed.lazy->producer() != nullptr) first.push_back(seed.lazy);
  // Gradients that can be differentiated again are functions of the targets, so each target must be a value of its own.
  if (options.create_graph)
    for (const Tensor& target : targets.leaves)
      if (target.lazy->producer() != nullptr) first.push_back(target.lazy);
  run(first, where);
  store_parameters(expressions, targets.parameters, where);
  const auto in_layouts = [&](std::vector<Tensor> gradients) {
    for (std::size_t i = 0; i < targets.parameters.size(); ++i)
      gradients[i] = in_layout_of(targets.parameters[i], gradients[i], where);
    return gradients;
  };
  std::optional<NoGrad> no_grad;
  if (!options.create_graph) no_grad.emplace();
  if (options.create_graph)
    return in_layouts(JoinedGraph(expressions, options, where).gradients(outputs, seeds, targets));
  std::vector<Tensor> out = shared_gradients(expressions, outputs, seeds, targets, options, where);
  if (options.retain_graph) return in_layouts(std::move(out));
  for (const auto& expression : expressions)
    for (const auto& weak_value : expression->values)
      if (const auto value = weak_value.lock(); value != nullptr && value->record().expression == expression)
        value->release_record();
  return in_layouts(std::move(out));
}

}  // namespace karez
