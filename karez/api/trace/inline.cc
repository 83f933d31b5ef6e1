// Implements Function::inlined: if a function is called with tensors, writes its body into the program that is being
// traced.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/api/state/compiled_function.h"
#include "karez/api/state/fixed_layouts.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {

// Converts an operand to an argument of a call, outside of a trace.
Argument make_argument(const Term& operand) {
  if (operand.is_number()) {
    Argument out((HostArray()));
    std::visit(
        [&](const auto& value) {
          if constexpr (Arithmetic<std::remove_cvref_t<decltype(value)>>) out.array = Tensor(value).lazy->host;
        },
        operand.value);
    return out;
  }
  const auto* tensor = std::get_if<Tensor>(&operand.value);
  if (tensor == nullptr)
    return at_line(operand.where, [&](Trace& t) { return t.tensor(t.value(operand)); }).array(operand.where);
  if (tensor->lazy == nullptr || !tensor->lazy->host.valid()) return tensor->array(operand.where);
  return host_argument(*tensor->lazy);
}

}  // namespace

Tensors Function::inlined(std::vector<Term> operands) const {
  State& s = *state_;
  if (Trace::open() == nullptr) {
    std::vector<Argument> arguments;
    for (const Term& operand : operands) arguments.push_back(make_argument(operand));
    const Future future = call(std::move(arguments));
    Tensors out;
    for (std::size_t i = 0; i < future.size(); ++i) out.list.emplace_back(future.value(i));
    return out;
  }
  Trace& trace = Trace::current();
  if (trace.expression != nullptr)
    trace.expression->place_on(s.mesh.world->shared_from_this(), own_mesh(s.mesh, s.options));
  const std::string name = cat("function '", s.options.name, "' (", karez::print(s.where), "), called with tensors");
  require(s.arguments < 0 || static_cast<int>(operands.size()) == s.arguments, name, ", expects ", s.arguments,
          s.arguments == 1 ? " argument, got " : " arguments, got ", operands.size());
  require(&trace.builder.ops() == &s.mesh.world->tables.ops, name,
          ", belongs to another world than the program that is being traced");
  const Mesh mesh = own_mesh(s.mesh, s.options);
  if (trace.mesh() != mesh)
    fail(name, ", is compiled for ", sbp::print(mesh), ", but the program that is being traced is for ",
         sbp::print(trace.mesh()));
  trace.remat.insert(trace.remat.end(), s.options.remat.begin(), s.options.remat.end());
  TraceLock lock(s.mesh.world->traces, s.plans->trace_owner);
  std::vector<Tensor> inputs;
  for (const auto& operand : operands) inputs.push_back(trace.tensor(trace.value(operand, trace.dtype_of(operand))));
  Tensors out;
  const auto enclosing_paths = std::exchange(trace.paths, {});
  auto accessed = trace.inlined(s.options.train, placements_of(s.mesh, s.options), [&] { out.list = s.body(inputs); });
  // The rules match only the parameters of this body, by their paths in this body.
  apply_rules_to(trace.graph, trace, accessed, s.options.rules);
  trace.paths = enclosing_paths;
  for (const auto& tensor : out.list) trace.value(Term(tensor));  // throws for a tensor of another trace
  return out;
}

}  // namespace karez
