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
// of them. With zeros=false, a value on which it does not depend has an uninitialised tensor.
std::vector<Tensor> gradients(Trace& t, ValueId loss, std::span<const ValueId> wrt, std::span<const ValueId> stops,
                              const std::vector<bool>& depends = {}, bool zeros = true) {
  std::vector<Tensor> out;
  const ValueId scale =
      t.scales_losses() ? build::cast(t.builder, t.loss_scale(), t.graph.type(loss).dtype) : ValueId();
  // Functions of hooks may register others, which concern later gradients.
  const std::vector<ops::GradientHook> hooks = t.gradient_hooks;
  const std::vector<ops::ValueHook> value_hooks = t.value_hooks;
  for (ValueId id :
       gradient(t.builder, loss, wrt,
                {.stops = stops, .seed = scale, .hooks = hooks, .value_hooks = value_hooks, .zeros = zeros})) {
    if (!id.valid()) {
      out.emplace_back();
      continue;
    }
    const bool is_zero = !depends.empty() && !depends[out.size()];
    out.push_back(t.tensor(scale.valid() && !is_zero ? t.unscale(id) : id));
    if (is_zero) t.mark_no_gradient(out.back());
  }
  return out;
}

// The sum of outputs[i] * seeds[i]. Adds the copies of the seeds to `stops`: they are weights here, even if they depend
// on the targets, and later gradients flow through the copies.
ValueId weighted_sum(Trace& t, const std::vector<Term>& outputs, const std::vector<Term>& seeds,
                     std::vector<ValueId>& stops) {
  Builder& b = t.builder;
  ValueId sum;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId output = t.value(outputs[i]), seed = t.value(seeds[i]);
    const TensorType type = t.graph.type(output);
    require(ErrorKind::type, type == t.graph.type(seed), "the seed of an output ", type, " must have its type, got ",
            t.graph.type(seed));
    stops.push_back(build::reshape(b, seed, type.shape));
    const ValueId term = build::sum(b, build::mul(b, output, stops.back()));
    sum = sum.valid() ? build::add(b, sum, build::cast(b, term, t.graph.type(sum).dtype)) : term;
  }
  return sum;
}

void require_seeds(const std::vector<Term>& outputs, const std::vector<Term>& seeds) {
  require(!outputs.empty() && outputs.size() == seeds.size(), "vector_jacobian: expected a seed for each of ",
          outputs.size(), " outputs, got ", seeds.size());
}

}  // namespace

std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors) {
  return at_line(loss.where, [&](Trace& t) {
    check_loss(t, loss);
    std::vector<ValueId> wrt;
    for (const auto& tensor : tensors) wrt.push_back(t.value(Term(tensor)));
    return gradients(t, t.value(loss), wrt, t.gradient_stops());
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
    return gradients(t, id, versions, t.gradient_stops(), depends);
  });
}

std::vector<Tensor> vector_jacobian(const std::vector<Term>& outputs, const std::vector<Term>& seeds,
                                    const std::vector<Tensor>& wrt) {
  require_seeds(outputs, seeds);
  return at_line(outputs[0].where, [&](Trace& t) {
    std::vector<ValueId> targets, stops = t.gradient_stops();
    for (const Tensor& tensor : wrt) targets.push_back(t.value(Term(tensor)));
    const ValueId loss = weighted_sum(t, outputs, seeds, stops);
    std::vector<Tensor> out;
    const std::vector<ops::GradientHook> hooks = t.gradient_hooks;
    const std::vector<ops::ValueHook> value_hooks = t.value_hooks;
    for (ValueId id : gradient(t.builder, loss, targets, {.stops = stops, .hooks = hooks, .value_hooks = value_hooks}))
      out.push_back(t.tensor(id));
    return out;
  });
}

std::vector<Tensor> vector_jacobian(const std::vector<Term>& outputs, const std::vector<Term>& seeds,
                                    const GradientTargets& targets) {
  require_seeds(outputs, seeds);
  return at_line(outputs[0].where, [&](Trace& t) {
    std::vector<ValueId> stops = t.gradient_stops();
    const ValueId loss = weighted_sum(t, outputs, seeds, stops);
    std::vector<ValueId> wrt = t.versions_read(loss, targets.parameters);
    for (const Tensor& tensor : targets.leaves) wrt.push_back(t.value(Term(tensor)));
    return gradients(t, loss, wrt, stops, {}, false);
  });
}

bool depends_on(const Term& value, const Term& source) {
  const Trace* trace = Trace::open();
  return trace != nullptr && trace->contains(value) && trace->contains(source) &&
         trace->depends_on(std::get<Tensor>(value.value).id, std::get<Tensor>(source.value).id);
}

void mark_gradients(std::size_t first_output, const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters)
    Trace::current().gradient_outputs.emplace_back(first_output++, parameter);
}

}  // namespace karez
