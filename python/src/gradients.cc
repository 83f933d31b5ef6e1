// Bindings of gradients, and of the functions that see and replace them.
#include "karez/api/functions.h"

#include <nanobind/stl/tuple.h>

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

std::vector<Value> values_of(const std::vector<Tensor>& tensors) { return {tensors.begin(), tensors.end()}; }

std::vector<Tensor> tensors_of(const std::vector<const Value*>& values) {
  std::vector<Tensor> out;
  for (const Value* value : values) {
    const Tensor* tensor = value->tensor();
    require(tensor != nullptr, "expected a tensor of the program, got a parameter");
    out.push_back(*tensor);
  }
  return out;
}

// A Python function of a list of gradients. It returns such a list, in which None is a zero.
TensorHook::Replace replace_function(nb::object function) {
  return [function = std::move(function)](const std::vector<Tensor>& gradients) {
    const nb::object results = function(values_of(gradients));
    std::vector<Tensor> out;
    for (nb::handle result : results) {
      if (result.is_none()) {
        out.emplace_back();
        continue;
      }
      const Tensor* tensor = nb::cast<const Value&>(result).tensor();
      require(tensor != nullptr, "expected a tensor of the program, got a parameter");
      out.push_back(*tensor);
    }
    return out;
  };
}

// inputs, outputs, and the functions that replace their gradients
using Hook = std::tuple<std::vector<const Value*>, std::vector<const Value*>, nb::object, nb::object>;

// Gradients with respect to parameters, or to tensors of the program.
std::vector<Value> gradients(const Operand& loss, const std::vector<const Value*>& wrt,
                             const std::vector<Hook>& hooks) {
  std::vector<Parameter> parameters;
  std::vector<Tensor> tensors;
  for (const Value* value : wrt) {
    if (const Tensor* tensor = value->tensor()) tensors.push_back(*tensor);
    else parameters.push_back(value->parameter());
  }
  require(parameters.empty() || tensors.empty(),
          "grad: expected either parameters or tensors of the program, got both in one call");
  std::vector<TensorHook> tensor_hooks;
  for (const auto& [inputs, outputs, replace_inputs, replace_outputs] : hooks)
    tensor_hooks.push_back(
        {tensors_of(inputs), tensors_of(outputs), replace_function(replace_inputs), replace_function(replace_outputs)});
  return values_of(tensors.empty() ? grad(loss, parameters, tensor_hooks) : grad(loss, tensors, tensor_hooks));
}

}  // namespace

void init_gradients(nb::module_& m) {
  m.def("grad", &gradients, "loss"_a, "wrt"_a, "hooks"_a = nb::make_tuple());
  m.def(
      "adjacent_copies", [](const Operands& tensors) { return values_of(adjacent_copies(terms_of(tensors))); },
      "tensors"_a);
  m.def("parameters_of", [](const Operand& value) {
    std::vector<Value> out;
    for (const Parameter& parameter : parameters_of(value)) out.emplace_back(parameter);
    return out;
  });
}

}  // namespace karez::python
