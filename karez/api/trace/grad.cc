// Implements grad: adds gradients to the program that is being traced.
#include <algorithm>
#include <utility>
#include <vector>

#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/compose.h"
#include "karez/ops/gradient.h"

namespace karez {
namespace {

// Throws for a loss outside of a trace, because an expression contains only the nodes of one call.
void check_loss(const Trace& t, const Term& loss) {
  require(t.expression == nullptr || t.contains(loss),
          "grad outside of a compiled function: the computation of the loss is not available; ",
          "value_and_grad(f)(x) computes f(x) and its gradients");
}

ops::GradientHook::Replace replace_values(Trace& t, const TensorHook::Replace& replace) {
  return [&t, &replace](std::span<const ValueId> gradients) {
    std::vector<Tensor> tensors;
    for (ValueId id : gradients) tensors.push_back(t.tensor(id));
    std::vector<ValueId> out;
    for (const Tensor& tensor : replace(tensors))
      out.push_back(tensor.id.valid() || tensor.lazy != nullptr ? t.value(Term(tensor)) : ValueId());
    return out;
  };
}

std::vector<ops::GradientHook> gradient_hooks(Trace& t, const std::vector<TensorHook>& hooks) {
  std::vector<ops::GradientHook> out;
  for (const TensorHook& hook : hooks) {
    out.push_back({.inputs = {},
                   .outputs = {},
                   .replace_inputs = replace_values(t, hook.replace_inputs),
                   .replace_outputs = replace_values(t, hook.replace_outputs)});
    for (const Tensor& tensor : hook.inputs) out.back().inputs.push_back(t.value(Term(tensor)));
    for (const Tensor& tensor : hook.outputs) out.back().outputs.push_back(t.value(Term(tensor)));
  }
  return out;
}

// `depends` says for each value in `wrt` whether the loss depends on it; if empty, the loss is assumed to depend on all
// of them.
std::vector<Tensor> gradients(Trace& t, ValueId loss, std::span<const ValueId> wrt,
                              const std::vector<TensorHook>& hooks, const std::vector<bool>& depends = {}) {
  std::vector<Tensor> out;
  const ValueId scale =
      t.scales_losses() ? build::cast(t.builder, t.loss_scale(), t.graph.type(loss).dtype) : ValueId();
  for (ValueId id : gradient(t.builder, loss, wrt, t.gradient_stops(), scale, gradient_hooks(t, hooks))) {
    const bool is_zero = !depends.empty() && !depends[out.size()];
    out.push_back(t.tensor(scale.valid() && !is_zero ? t.unscale(id) : id));
    if (is_zero) t.mark_no_gradient(out.back());
  }
  return out;
}

}  // namespace

std::vector<Tensor> adjacent_copies(const std::vector<Term>& values) {
  std::vector<Tensor> out;
  if (values.empty()) return out;
  return at_line(values[0].where, [&](Trace& t) {
    std::vector<ValueId> ids;
    for (const Term& value : values) ids.push_back(t.value(value));
    for (ValueId id : ids) out.push_back(t.tensor(build::reshape(t.builder, id, Shape(t.graph.type(id).shape))));
    return out;
  });
}

std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors) { return grad(std::move(loss), tensors, {}); }

std::vector<Tensor> grad(Term loss, const std::vector<Parameter>& parameters) {
  return grad(std::move(loss), parameters, {});
}

std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors, const std::vector<TensorHook>& hooks) {
  return at_line(loss.where, [&](Trace& t) {
    check_loss(t, loss);
    std::vector<ValueId> wrt;
    for (const auto& tensor : tensors) wrt.push_back(t.value(Term(tensor)));
    return gradients(t, t.value(loss), wrt, hooks);
  });
}

std::vector<Tensor> grad(Term loss, const std::vector<Parameter>& parameters, const std::vector<TensorHook>& hooks) {
  return at_line(loss.where, [&](Trace& t) {
    check_loss(t, loss);
    const ValueId id = t.value(loss);
    const std::vector<ValueId> versions = t.versions_read(id, parameters);
    const std::vector<Parameter> ancestors = t.ancestor_parameters(id);
    std::vector<bool> depends;
    for (const Parameter& parameter : parameters)
      depends.push_back(std::find(ancestors.begin(), ancestors.end(), parameter) != ancestors.end());
    return gradients(t, id, versions, hooks, depends);
  });
}

}  // namespace karez
