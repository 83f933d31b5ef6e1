// Implements calls that share graphs: the lookup of a call, and the expression that uses a known graph.
#include "karez/api/trace/shared_call.h"

#include <algorithm>

#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/expression_program.h"

namespace karez {
namespace {

bool is_bindable(const Term& term) {
  const auto* tensor = std::get_if<Tensor>(&term.value);
  return tensor == nullptr || tensor->lazy != nullptr;
}

double number_of(const Term& term) {
  return std::visit(
      []<class T>(const T& value) {
        if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(value);
        else return 0.0;
      },
      term.value);
}

// Appends the numbers of a call as operands of these types. The functions read numbers in their order, after tensors.
void bind_numbers(Expression& expression, std::span<const Term* const> operands, const std::vector<DType>& dtypes) {
  std::size_t number = 0;
  for (const Term* term : operands)
    if (term != nullptr && term->is_number()) expression.bind_number(dtypes[number++], number_of(*term));
}

// Returns the types of the operands from `first` on if they are the numbers of the call, in their order.
std::optional<std::vector<DType>> number_types(const Expression& expression, std::span<const Term* const> operands,
                                               std::size_t first) {
  std::vector<DType> out;
  for (const Term* term : operands) {
    if (term == nullptr || !term->is_number()) continue;
    if (first + out.size() >= expression.operands.size()) return std::nullopt;
    out.push_back(expression.operands[first + out.size()]->type.dtype);
  }
  if (first + out.size() != expression.operands.size()) return std::nullopt;
  return out;
}

// Makes the operands of the call those of the expression, without nodes, and appends their types to `call`.
void bind(Expression& expression, std::span<const Term* const> operands, std::vector<Parameter>& parameters,
          std::string& call) {
  for (const Term* term : operands) {
    if (term == nullptr) {
      call += '-';
      continue;
    }
    call += static_cast<char>(term->as_number);
    if (const auto* tensor = std::get_if<Tensor>(&term->value)) {
      call += 't';
      key::put(call, expression.bind(tensor->lazy));
      key::put(call, tensor->type.dtype, tensor->type.shape);
      continue;
    }
    if (term->is_number()) {
      call += static_cast<char>('0' + term->value.index());
      continue;
    }
    const auto& parameter = std::get<Parameter>(term->value);
    const auto known = std::find(parameters.begin(), parameters.end(), parameter);
    call += 'p';
    key::put(call, static_cast<std::size_t>(known - parameters.begin()));
    key::put(call, parameter.dtype(), parameter.shape());
    if (known == parameters.end()) parameters.push_back(parameter);
    expression.place_with(parameter);
  }
}

}  // namespace

SharedGraph shared_graph(Graph graph) {
  SharedGraph out;
  for (Node& node : graph.nodes) {
    out.may_fail = out.may_fail || may_fail(graph, node);
    node.where.clear();
  }
  out.key = key_of(graph);
  out.graph = std::move(graph);
  return out;
}

Tensor write_or_share(Trace& t, const CallKey& key, std::span<const Term* const> operands,
                      const std::function<Tensor(Trace&)>& body) {
  if (!std::all_of(operands.begin(), operands.end(),
                   [](const Term* term) { return term == nullptr || is_bindable(*term); }))
    return body(t);
  Expression& expression = *t.expression;
  std::string call = key.bytes();
  key::put(call, std::string_view(t.builder.path));
  std::vector<Parameter> parameters;
  bind(expression, operands, parameters, call);
  const auto world = expression.has_world ? world_of(expression) : nullptr;
  if (world != nullptr) {
    if (auto shared = world->shared_graphs.find(call)) {
      std::vector<Parameter> read;
      for (std::size_t index : shared->parameters) read.push_back(parameters[index]);
      t.set_parameters(std::move(read));
      bind_numbers(expression, operands, shared->numbers);
      expression.share(std::move(shared));
      return expression.shared->result.valid() ? t.tensor(expression.shared->result) : Tensor();
    }
  }
  expression.add_inputs();
  const std::size_t bound = expression.operands.size();
  Tensor out = body(t);
  // Without a world its table of ops is unknown, and the key describes no other operands.
  auto numbers = number_types(expression, operands, bound);
  if (world == nullptr || !numbers) return out;
  auto recorded = std::make_shared<SharedGraph>(shared_graph(t.graph));
  recorded->numbers = std::move(*numbers);
  recorded->result = out.id;
  for (const Parameter& parameter : t.parameters()) {
    const auto known = std::find(parameters.begin(), parameters.end(), parameter);
    if (known == parameters.end()) return out;
    recorded->parameters.push_back(static_cast<std::size_t>(known - parameters.begin()));
  }
  world->shared_graphs.add(std::move(call), recorded, recorded->graph.nodes.size());
  expression.share(std::move(recorded));
  return out;
}

void at_step(const SourceLine& where, const std::string& path, const CallKey& key,
             const std::vector<Parameter>& parameters, const std::vector<Tensor>& grads,
             std::initializer_list<const std::vector<Parameter>*> state, const Parameter* count, double rate,
             const std::function<void(Trace&)>& body) {
  const auto write = [&](Trace& t) {
    body(t);
    return Tensor();
  };
  if (Trace::open() != nullptr || grads.size() != parameters.size()) {
    at_line(where, path, write);
    return;
  }
  std::vector<Term> terms;
  if (count != nullptr) terms.emplace_back(*count, where);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].lazy == nullptr) continue;
    terms.emplace_back(parameters[i], where);
    terms.emplace_back(grads[i], where);
    for (const auto* list : state)
      if (!list->empty()) terms.emplace_back((*list)[i], where);
    terms.emplace_back(rate, where);
  }
  std::vector<const Term*> operands;
  for (const Term& term : terms) operands.push_back(&term);
  at_line_shared(where, path, key, operands, write);
}

}  // namespace karez
