// Registers functions that see and replace gradients: hooks of tensors and of modules, and custom functions.
#include <algorithm>
#include <utility>

#include "karez/api/functions.h"
#include "karez/api/interactive_scope.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {

bool has_value(const Tensor& tensor) { return tensor.id.valid() || tensor.lazy != nullptr; }

// In the body of a loop the gradients of the outer program do not reach the hook.
void require_no_loop(const Trace& t) {
  require(!t.is_in_region(), "gradients in the body of a loop or vmap have no hooks, so modules with backward hooks, ",
          "custom functions and register_hook cannot be used there; move the call out of the loop, or remove the hook "
          "(see 'hooks in a loop' in docs/from-pytorch.md)");
}

std::vector<Tensor> tensors_of(Trace& t, std::span<const ValueId> ids) {
  std::vector<Tensor> out;
  for (ValueId id : ids) out.push_back(id.valid() ? t.tensor(id) : Tensor());
  return out;
}
std::vector<ValueId> ids_of(Trace& t, const std::vector<Tensor>& tensors) {
  std::vector<ValueId> out;
  for (const Tensor& tensor : tensors) out.push_back(has_value(tensor) ? t.value(Term(tensor)) : ValueId());
  return out;
}

}  // namespace

void HookHandle::remove() const {
  if (const auto hook = hook_.lock()) *hook = nullptr;
}

HookHandle register_hook(const Tensor& tensor, TensorHook hook, SourceLine where) {
  const auto shared = std::make_shared<TensorHook>(std::move(hook));
  if (!is_float(tensor.dtype()))
    fail(ErrorKind::type, "register_hook: only float tensors have gradients, got ", tensor.type, " at ", print(where));
  if (tensor.lazy != nullptr) {
    require(tensor.lazy->requires_gradient(), "register_hook: a tensor ", tensor.type,
            " requires no gradient; make it with requires_grad=True, or compute it from a parameter or such a tensor");
    LazyValue::GradientHooks hooks = tensor.lazy->gradient_hooks();
    hooks.push_back(shared);
    tensor.lazy->set_gradient_hooks(std::move(hooks));
    return HookHandle(shared);
  }
  return at_line(where, [&](Trace& t) {
    require_no_loop(t);
    t.value_hooks.push_back({.value = t.value(Term(tensor)),
                             .replace =
                                 [&t, shared](ValueId gradient) {
                                   if (*shared == nullptr) return gradient;
                                   const Tensor replaced = (*shared)(t.tensor(gradient));
                                   return has_value(replaced) ? t.value(Term(replaced)) : gradient;
                                 },
                             .is_source = true});
    return HookHandle(shared);
  });
}

std::vector<Tensor> adjacent_copies(const std::vector<Term>& values) { return hooked_copies(values, {}); }

std::vector<Tensor> hooked_copies(const std::vector<Term>& values, ModuleHook hook) {
  if (values.empty()) return {};
  return at_line(values[0].where, [&](Trace& t) {
    const bool is_hooked = hook.replace_outputs != nullptr;
    std::vector<ValueId> ids, copies;
    for (const Term& value : values) ids.push_back(t.value(value));
    for (ValueId id : ids) copies.push_back(build::reshape(t.builder, id, Shape(t.graph.type(id).shape)));
    if (is_hooked && t.expression != nullptr) {
      for (const Tensor& operand : hook.operands)
        if (is_grad_enabled() && operand.lazy->requires_gradient()) t.expression->requires_gradient = true;
      if (t.expression->requires_gradient) t.expression->hook = std::make_shared<ModuleHook>(std::move(hook));
    } else if (is_hooked) {
      require_no_loop(t);
      const auto shared = std::make_shared<ModuleHook>(std::move(hook));
      t.gradient_hooks.push_back({
          .inputs = ids_of(t, shared->inputs),
          .outputs = copies,
          .replace_inputs =
              [&t, shared](std::span<const ValueId> gradients) {
                return ids_of(t, shared->replace_inputs(tensors_of(t, gradients)));
              },
          .replace_outputs =
              [&t, shared, copies](std::span<const ValueId> gradients) {
                return ids_of(t, shared->replace_outputs(tensors_of(t, copies), tensors_of(t, gradients)));
              },
          .operands = ids_of(t, shared->operands),
      });
    }
    return tensors_of(t, copies);
  });
}

std::vector<Tensor> custom_function(const std::vector<Term>& inputs, const CustomForward& forward,
                                    CustomBackward backward, SourceLine where) {
  ModuleHook hook;
  hook.replace_outputs = [backward = std::move(backward)](const std::vector<Tensor>& outputs,
                                                          const std::vector<Tensor>& gradients) {
    std::vector<Tensor> given;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      given.push_back(has_value(gradients[i]) ? gradients[i]
                                              : cast(broadcast_to(0, outputs[i].shape()), outputs[i].dtype()));
    return backward(outputs, given);
  };
  const std::vector<Tensor> copies = adjacent_copies(inputs);
  for (const Tensor& copy : copies)
    if (is_float(copy.dtype())) hook.operands.push_back(copy);
  if (hook.operands.size() != copies.size() || copies.empty())
    fail(ErrorKind::type, "custom_function: expected one float tensor or more as inputs, got ", copies.size(),
         " tensors, of which ", hook.operands.size(), " are float tensors, at ", print(where));
  std::vector<Term> outputs;
  {
    const NoGrad no_grad;
    for (const Tensor& output : forward(copies)) outputs.emplace_back(output, where);
  }
  for (const Term& output : outputs)
    if (!is_float(std::get<Tensor>(output.value).dtype()))
      fail(ErrorKind::type, "custom_function: its results must be float tensors, got ",
           std::get<Tensor>(output.value).type, " at ", print(where));
  return hooked_copies(outputs, std::move(hook));
}

}  // namespace karez
