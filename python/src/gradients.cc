// Bindings of gradients, and of the functions that see and replace them.
#include "karez/api/function_transforms.h"

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

std::vector<Value> values_of(const std::vector<Tensor>& tensors) { return {tensors.begin(), tensors.end()}; }

std::shared_ptr<nb::object> shared_object(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* owned) {
            nb::gil_scoped_acquire lock;
            delete owned;
          }};
}

// A parameter is read.
Tensor tensor_or_read(const Value& value) {
  return value.tensor() != nullptr ? *value.tensor() : adjacent_copies({Term(value.parameter())})[0];
}

std::vector<Tensor> tensors_of(const std::vector<const Value*>& values) {
  std::vector<Tensor> out;
  for (const Value* value : values) {
    const Tensor* tensor = value->tensor();
    require(tensor != nullptr, "expected a tensor of the program, got a parameter");
    out.push_back(*tensor);
  }
  return out;
}

// A tensor without a value is None.
nb::list list_of(const std::vector<Tensor>& tensors) {
  nb::list out;
  for (const Tensor& tensor : tensors) {
    if (tensor.id.valid() || tensor.lazy != nullptr) out.append(Value(tensor));
    else out.append(nb::none());
  }
  return out;
}

// A Python function that returns a list of tensors, in which None is a zero. Any thread may destroy it.
template <class... Lists> std::function<std::vector<Tensor>(const Lists&...)> tensor_function(nb::object function) {
  return [function = shared_object(std::move(function))](const Lists&... lists) {
    nb::gil_scoped_acquire lock;
    const nb::object results = (*function)(list_of(lists)...);
    std::vector<Tensor> out;
    for (nb::handle result : results)
      out.push_back(result.is_none() ? Tensor() : tensor_or_read(nb::cast<const Value&>(result)));
    return out;
  };
}

// Gradients with respect to parameters, or to tensors of the program.
std::vector<Value> gradients(const Operand& loss, const std::vector<const Value*>& wrt) {
  std::vector<Parameter> parameters;
  std::vector<Tensor> tensors;
  for (const Value* value : wrt) {
    if (const Tensor* tensor = value->tensor()) tensors.push_back(*tensor);
    else parameters.push_back(value->parameter());
  }
  require(parameters.empty() || tensors.empty(),
          "grad: expected either parameters or tensors of the program, got both in one call");
  return values_of(tensors.empty() ? grad(loss, parameters) : grad(loss, tensors));
}

HookHandle registered_hook(const Value& value, nb::object function) {
  const Tensor* tensor = value.tensor();
  require(tensor != nullptr, "register_hook: expected a tensor, got a parameter");
  return register_hook(
      *tensor,
      [function = shared_object(std::move(function))](const Tensor& gradient) {
        nb::gil_scoped_acquire lock;
        const nb::object result = (*function)(Value(gradient));
        return result.is_none() ? Tensor() : tensor_or_read(nb::cast<const Value&>(result));
      },
      user_line());
}

std::vector<Value> copies_with_hook(const Operands& outputs, const std::vector<const Value*>& inputs,
                                    const std::vector<const Value*>& operands, nb::object replace_outputs,
                                    nb::object replace_inputs) {
  ModuleHook hook;
  hook.inputs = tensors_of(inputs);
  hook.operands = tensors_of(operands);
  hook.replace_outputs = tensor_function<std::vector<Tensor>, std::vector<Tensor>>(std::move(replace_outputs));
  hook.replace_inputs = tensor_function<std::vector<Tensor>>(std::move(replace_inputs));
  ensure_default_device();
  return values_of(hooked_copies(terms_of(outputs), std::move(hook)));
}

}  // namespace

void init_gradients(nb::module_& m) {
  m.def(
      "snapshot", [](const Value& value) { return Value(tensor_or_read(value)); }, "tensor"_a,
      "The present value of a tensor or parameter.");
  nb::class_<HookHandle>(m, "HookHandle").def("remove", &HookHandle::remove);
  m.def("grad", &gradients, "loss"_a, "wrt"_a);
  m.def(
      "vector_jacobian",
      [](const Operands& outputs, const Operands& seeds, const std::vector<const Value*>& wrt) {
        return values_of(vector_jacobian(terms_of(outputs), terms_of(seeds), tensors_of(wrt)));
      },
      "outputs"_a, "seeds"_a, "wrt"_a);
  m.def("register_hook", &registered_hook, "tensor"_a, "hook"_a);
  m.def(
      "adjacent_copies",
      [](const Operands& tensors) {
        ensure_default_device();
        return values_of(adjacent_copies(terms_of(tensors)));
      },
      "tensors"_a);
  m.def("hooked_copies", &copies_with_hook, "outputs"_a, "inputs"_a, "operands"_a, "replace_outputs"_a,
        "replace_inputs"_a);
  m.def(
      "depends_on", [](const Operand& value, const Operand& source) { return depends_on(value, source); }, "value"_a,
      "source"_a, "Whether a gradient of a value of the program that is being traced flows to the source.");
  m.def("parameters_of", [](const Operand& value) {
    std::vector<Value> out;
    for (const Parameter& parameter : parameters_of(value)) out.emplace_back(parameter);
    return out;
  });
}

}  // namespace karez::python
