// Implements grad and vector_jacobian: adds gradients to the program that is being traced.
#include <algorithm>
#include <utility>
#include <vector>

#include "karez/api/function_transforms.h"
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

// `depends` says for each value in `wrt` whether the loss depends on it; if empty, the loss is assumed to depend on all
// of them.
std::vector<Tensor> gradients(Trace& t, ValueId loss, std::span<const ValueId> wrt,
                              const std::vector<bool>& depends = {}) {
  std::vector<Tensor> out;
  const ValueId scale =
      t.scales_losses() ? build::cast(t.builder, t.loss_scale(), t.graph.type(loss).dtype) : ValueId();
  // Functions of hooks may register others, which concern later gradients.
  const std::vector<ops::GradientHook> hooks = t.gradient_hooks;
  const std::vector<ops::ValueHook> value_hooks = t.value_hooks;
  for (ValueId id :
       gradient(t.builder, loss, wrt,
                {.stops = t.gradient_stops(), .seed = scale, .hooks = hooks, .value_hooks = value_hooks})) {
    const bool is_zero = !depends.empty() && !depends[out.size()];
    out.push_back(t.tensor(scale.valid() && !is_zero ? t.unscale(id) : id));
    if (is_zero) t.mark_no_gradient(out.back());
  }
  return out;
}

}  // namespace

std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors) {
  return at_line(loss.where, [&](Trace& t) {
    check_loss(t, loss);
    std::vector<ValueId> wrt;
    for (const auto& tensor : tensors) wrt.push_back(t.value(Term(tensor)));
    return gradients(t, t.value(loss), wrt);
  });
}

std::vector<Tensor> grad(Term loss, const std::vector<Parameter>& parameters) {
  return at_line(loss.where, [&](Trace& t) {
    check_loss(t, loss);
    const ValueId id = t.value(loss);
    const std::vector<ValueId> versions = t.versions_read(id, parameters);
    const std::vector<Parameter> ancestors = t.ancestor_parameters(id);
    std::vector<bool> depends;
    for (const Parameter& parameter : parameters)
      depends.push_back(std::find(ancestors.begin(), ancestors.end(), parameter) != ancestors.end());
    return gradients(t, id, versions, depends);
  });
}

std::vector<Tensor> vector_jacobian(const std::vector<Term>& outputs, const std::vector<Term>& seeds,
                                    const std::vector<Tensor>& wrt) {
  require(!outputs.empty() && outputs.size() == seeds.size(), "vector_jacobian: expected a seed for each of ",
          outputs.size(), " outputs, got ", seeds.size());
  return at_line(outputs[0].where, [&](Trace& t) {
    Builder& b = t.builder;
    std::vector<ValueId> targets, stops = t.gradient_stops();
    for (const Tensor& tensor : wrt) targets.push_back(t.value(Term(tensor)));
    ValueId loss;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const ValueId output = t.value(outputs[i]), seed = t.value(seeds[i]);
      const TensorType type = t.graph.type(output);
      require(ErrorKind::type, type == t.graph.type(seed), "the seed of an output ", type, " must have its type, got ",
              t.graph.type(seed));
      // Seeds are weights here, even if they depend on `wrt`; later gradients flow through the copy.
      stops.push_back(build::reshape(b, seed, type.shape));
      const ValueId term = build::sum(b, build::mul(b, output, stops.back()));
      loss = loss.valid() ? build::add(b, loss, build::cast(b, term, t.graph.type(loss).dtype)) : term;
    }
    std::vector<Tensor> out;
    const std::vector<ops::GradientHook> hooks = t.gradient_hooks;
    const std::vector<ops::ValueHook> value_hooks = t.value_hooks;
    for (ValueId id : gradient(b, loss, targets, {.stops = stops, .hooks = hooks, .value_hooks = value_hooks}))
      out.push_back(t.tensor(id));
    return out;
  });
}

}  // namespace karez
