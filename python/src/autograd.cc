// Gradients outside of compiled functions: leaves, records of computations, and backward.
#include "karez/api/interactive.h"

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {

using namespace nb::literals;

std::vector<Tensor> tensors_of(const std::vector<const Value*>& values) {
  std::vector<Tensor> out;
  for (const Value* value : values) out.push_back(value == nullptr ? Tensor() : value->outside());
  return out;
}

std::uintptr_t identity_of(const Tensor& leaf) { return reinterpret_cast<std::uintptr_t>(leaf_identity(leaf)); }

// The identities of the parameters on which tensors depend, and the leaves by identity.
nb::tuple targets_of(const std::vector<const Value*>& outputs) {
  const GradientTargets targets = gradient_targets(tensors_of(outputs));
  nb::list parameters;
  nb::dict leaves;
  for (const Parameter& parameter : targets.parameters)
    parameters.append(reinterpret_cast<std::uintptr_t>(parameter.identity().lock().get()));
  for (const Tensor& leaf : targets.leaves) leaves[nb::int_(identity_of(leaf))] = Value(leaf);
  return nb::make_tuple(parameters, leaves);
}

// `seeds` has None for an output without a seed. Each target is a parameter or a tensor.
std::vector<Value> gradients_of(const std::vector<const Value*>& outputs, const nb::list& seeds,
                                const std::vector<const Value*>& targets, bool retain_graph, bool create_graph) {
  const SourceLine line = user_line();
  ensure_default_device();
  std::vector<Tensor> seed_tensors;
  for (nb::handle seed : seeds)
    seed_tensors.push_back(seed.is_none() ? Tensor() : nb::inst_ptr<Value>(seed)->outside());
  GradientTargets wrt;
  for (const Value* target : targets) {
    if (const Tensor* tensor = target->tensor()) wrt.leaves.push_back(*tensor);
    else wrt.parameters.push_back(target->parameter());
  }
  const std::vector<Tensor> outputs_outside = tensors_of(outputs);
  std::vector<Tensor> gradients;
  {
    GilRelease without_gil;
    gradients = backward(outputs_outside, seed_tensors, wrt, {retain_graph, create_graph}, line);
  }
  std::vector<Value> out;
  std::size_t next_parameter = 0, next_leaf = wrt.parameters.size();
  for (const Value* target : targets)
    out.emplace_back(std::move(gradients[target->tensor() != nullptr ? next_leaf++ : next_parameter++]));
  return out;
}

}  // namespace

void init_autograd(nb::module_& m) {
  m.def("is_grad_enabled", &is_grad_enabled);
  m.def("set_grad_enabled", &set_grad_enabled, "mode"_a, "Returns the mode before.");
  m.def(
      "require_gradient",
      [](Value& value, bool enabled) {
        ensure_default_device();
        Tensor tensor = value.outside();
        require_gradient(tensor, enabled);
        value.content = std::move(tensor);
        value.alias.reset();
      },
      "input"_a, "enabled"_a);
  m.def(
      "requires_gradient",
      [](const Value& value) { return value.tensor() != nullptr && requires_gradient(*value.tensor()); }, "input"_a);
  m.def(
      "is_leaf", [](const Value& value) { return value.tensor() == nullptr || is_leaf(*value.tensor()); }, "input"_a);
  m.def(
      "leaf_identity", [](const Value& value) { return identity_of(value.outside()); }, "input"_a);
  m.def("gradient_targets", &targets_of, "outputs"_a);
  m.def("backward", &gradients_of, "outputs"_a, "seeds"_a, "targets"_a, "retain_graph"_a, "create_graph"_a);
}

}  // namespace karez::python
