// Gradients outside of compiled functions: leaves, records of computations, and backward.
#include "karez/api/function_transforms.h"
#include "karez/api/interactive.h"

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {

using namespace nb::literals;

std::vector<Tensor> tensors_of(const std::vector<const Value*>& values) {
  std::vector<Tensor> out;
  for (const Value* value : values) out.push_back(value->outside());
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

// Parameters and tensors.
GradientTargets targets_from(const std::vector<const Value*>& targets) {
  GradientTargets out;
  for (const Value* target : targets) {
    if (const Tensor* tensor = target->tensor()) out.leaves.push_back(*tensor);
    else out.parameters.push_back(target->parameter());
  }
  return out;
}

// Gradients of parameters and then those of tensors, in the order of the targets; None for an uninitialised tensor.
nb::list in_order_of(const std::vector<const Value*>& targets, const std::vector<Tensor>& gradients,
                     std::size_t parameters) {
  std::size_t next_parameter = 0, next_leaf = parameters;
  nb::list out;
  for (const Value* target : targets) {
    const Tensor& gradient = gradients[target->tensor() != nullptr ? next_leaf++ : next_parameter++];
    if (gradient.id.valid() || gradient.lazy != nullptr) out.append(Value(gradient));
    else out.append(nb::none());
  }
  return out;
}

// `seeds` has None for an output without a seed. Each target is a parameter or a tensor.
nb::list gradients_of(const std::vector<const Value*>& outputs, const nb::list& seeds,
                      const std::vector<const Value*>& targets, bool retain_graph, bool create_graph, bool zeros) {
  const SourceLine line = user_line();
  ensure_default_device();
  std::vector<Tensor> seed_tensors;
  for (nb::handle seed : seeds)
    seed_tensors.push_back(seed.is_none() ? Tensor() : nb::cast<const Value&>(seed).outside());
  const GradientTargets wrt = targets_from(targets);
  const std::vector<Tensor> outputs_outside = tensors_of(outputs);
  std::vector<Tensor> gradients;
  {
    GilRelease without_gil;
    gradients = backward(outputs_outside, seed_tensors, wrt, {retain_graph, create_graph, zeros}, line);
  }
  return in_order_of(targets, gradients, wrt.parameters.size());
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
  m.def("backward", &gradients_of, "outputs"_a, "seeds"_a, "targets"_a, "retain_graph"_a, "create_graph"_a,
        "zeros"_a = true);
  m.def(
      "in_layout_of",
      [](const Value& parameter, const Value& gradient) {
        return Value(in_layout_of(parameter.parameter(), gradient.outside(), user_line()));
      },
      "parameter"_a, "gradient"_a);
  m.def(
      "vector_jacobian_of",
      [](const Operands& outputs, const Operands& seeds, const std::vector<const Value*>& targets) {
        const GradientTargets wrt = targets_from(targets);
        return in_order_of(targets, vector_jacobian(terms_of(outputs), terms_of(seeds), wrt), wrt.parameters.size());
      },
      "outputs"_a, "seeds"_a, "targets"_a);
}

}  // namespace karez::python
