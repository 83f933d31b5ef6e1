// Functions of neural networks: products, convolutions, pooling, normalisation, attention, losses and dropout.
#include <numeric>
#include <optional>

#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/axes.h"
#include "karez/api/trace/promotion.h"
#include "karez/api/trace/shared_call.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/attention.h"
#include "karez/ops/compose.h"
#include "karez/ops/norms.h"

namespace karez {
namespace {

build::PoolOptions pool_options(std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  if (stride == 0) stride = kernel;
  return {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}};
}

// Applies `op`, a composition of ops, to logits, labels and optional weights. The weights are cast to the dtype of the
// logits.
template <class Op>
Tensor apply_to_rows(const CallKey& key, const Term& logits, const Term& labels, const Term* weights, Op op) {
  return at_line_shared(logits.where, key, {&logits, &labels, weights}, [&](Trace& t) {
    ValueId x = t.value(logits), y = t.value(labels, DType::i64);
    std::optional<ValueId> w;
    if (weights != nullptr) w = as(t, *weights, t.dtype_of(logits));
    return t.tensor(op(t.builder, x, y, w));
  });
}
Tensor mean_cross_entropy(const Term& logits, const Term& labels, const Term* weights,
                          const CrossEntropyOptions& options) {
  const CallKey key("cross_entropy", options.ignore_index);
  return apply_to_rows(key, logits, labels, weights, [&](Builder& b, ValueId x, ValueId y, std::optional<ValueId> w) {
    return build::cross_entropy(b, x, y, w, options.ignore_index);
  });
}

Tensor attention(const Term& q, const Term& k, const Term& v, const Term* mask, const AttentionOptions& options) {
  return at_line_shared(q.where, CallKey("attention", options.causal, options.scale), {&q, &k, &v, mask},
                        [&](Trace& t) {
                          ValueId a = t.value(q), b = t.value(k), c = t.value(v);
                          std::optional<ValueId> m;
                          if (mask != nullptr) m = t.value(*mask, t.dtype_of(*mask));
                          return t.tensor(build::attention(t.builder, a, b, c, {options.causal, options.scale}, m));
                        });
}
Tensor masked_weights(const Term& q, const Term& k, const Term* mask, const AttentionOptions& options) {
  return at_line_shared(
      q.where, CallKey("attention_weights", options.causal, options.scale), {&q, &k, mask}, [&](Trace& t) {
        ValueId a = t.value(q), b = t.value(k);
        std::optional<ValueId> m;
        if (mask != nullptr) m = t.value(*mask, t.dtype_of(*mask));
        return t.tensor(build::attention_weights(t.builder, a, b, {options.causal, options.scale}, m));
      });
}

}  // namespace

Tensor softmax(Term x, int axis) {
  return at_line_shared(x.where, CallKey("softmax", axis), {&x},
                        [&](Trace& t) { return t.tensor(build::softmax(t.builder, t.value(x), axis)); });
}
Tensor log_softmax(Term x, int axis) {
  return at_line_shared(x.where, CallKey("log_softmax", axis), {&x},
                        [&](Trace& t) { return t.tensor(build::log_softmax(t.builder, t.value(x), axis)); });
}

Tensor matmul(Term a, Term b) {
  return at_line_shared(a.where, CallKey("matmul"), {&a, &b}, [&](Trace& t) {
    ValueId left = t.value(a), right = t.value(b);
    return t.tensor(build::matmul(t.builder, left, right));
  });
}

Tensor linear(Term x, Term weight) {
  return at_line_shared(x.where, CallKey("linear"), {&x, &weight}, [&](Trace& t) {
    ValueId id = t.value(x), w = t.value(weight);
    return t.tensor(build::linear(t.builder, id, w));
  });
}
Tensor linear(Term x, Term weight, Term bias) {
  return at_line_shared(x.where, CallKey("linear"), {&x, &weight, &bias}, [&](Trace& t) {
    ValueId id = t.value(x), w = t.value(weight), shift = t.value(bias);
    return t.tensor(build::linear(t.builder, id, w, shift));
  });
}

Tensor einsum(std::string_view subscripts, std::vector<Term> operands) {
  require(!operands.empty(), "einsum '", subscripts, "': at least one operand is required");
  return at_line(operands[0].where, [&](Trace& t) {
    std::vector<ValueId> ids;
    for (const Term& operand : operands) ids.push_back(t.value(operand));
    return t.tensor(build::einsum(t.builder, subscripts, ids));
  });
}

Tensor conv2d(Term x, Term weight, Conv2dOptions options) {
  return at_line_shared(
      x.where, CallKey("conv2d", options.stride, options.padding, options.dilation), {&x, &weight}, [&](Trace& t) {
        ValueId image = t.value(x), kernel = t.value(weight);
        return t.tensor(build::conv2d(t.builder, image, kernel, {options.stride, options.padding, options.dilation}));
      });
}

Tensor conv2d(Term x, Term weight, Term bias, Conv2dOptions options) {
  return at_line_shared(x.where, CallKey("conv2d", options.stride, options.padding, options.dilation),
                        {&x, &weight, &bias}, [&](Trace& t) {
                          ValueId image = t.value(x), kernel = t.value(weight), shift = t.value(bias);
                          return t.tensor(build::conv2d_bias(t.builder, image, kernel, shift,
                                                             {options.stride, options.padding, options.dilation}));
                        });
}

Tensor max_pool(Term x, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return at_line_shared(x.where, CallKey("max_pool", kernel, stride, padding), {&x}, [&](Trace& t) {
    return t.tensor(build::max_pool(t.builder, t.value(x), pool_options(kernel, stride, padding)).value);
  });
}
Tensor avg_pool(Term x, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return at_line_shared(x.where, CallKey("avg_pool", kernel, stride, padding), {&x}, [&](Trace& t) {
    return t.tensor(build::avg_pool(t.builder, t.value(x), pool_options(kernel, stride, padding)));
  });
}

Tensor layer_norm(Term x, Term weight, Term bias, double eps) {
  return at_line_shared(x.where, CallKey("layer_norm", eps), {&x, &weight, &bias}, [&](Trace& t) {
    ValueId id = t.value(x), w = t.value(weight), shift = t.value(bias);
    return t.tensor(build::layer_norm(t.builder, id, t.graph.type(w).rank(), eps, w, shift));
  });
}
namespace {
// Returns the machine epsilon of the dtype in which the op computes, which is f32 for half types.
double machine_epsilon(DType dtype) { return std::ldexp(1.0, dtype == DType::f64 ? -52 : -23); }
}  // namespace

Tensor rms_norm(Term x, Term weight, std::optional<double> eps) {
  return at_line_shared(x.where, CallKey("rms_norm", eps), {&x, &weight}, [&](Trace& t) {
    ValueId id = t.value(x), w = t.value(weight);
    return t.tensor(build::rms_norm(t.builder, id, t.graph.type(w).rank(),
                                    eps.value_or(machine_epsilon(t.graph.type(id).dtype)), w));
  });
}

Tensor scaled_dot_product_attention(Term q, Term k, Term v, AttentionOptions options) {
  return attention(q, k, v, nullptr, options);
}
Tensor scaled_dot_product_attention(Term q, Term k, Term v, Term mask, AttentionOptions options) {
  return attention(q, k, v, &mask, options);
}
Tensor attention_weights(Term q, Term k, AttentionOptions options) { return masked_weights(q, k, nullptr, options); }
Tensor attention_weights(Term q, Term k, Term mask, AttentionOptions options) {
  return masked_weights(q, k, &mask, options);
}
Tensor rotary(Term x, RotaryOptions options) {
  return at_line(x.where, [&](Trace& t) {
    return t.tensor(build::rotary(t.builder, t.value(x), {options.base, options.first, options.interleaved}));
  });
}

Tensor cross_entropy(Term logits, Term labels, CrossEntropyOptions options) {
  return mean_cross_entropy(logits, labels, nullptr, options);
}
Tensor cross_entropy(Term logits, Term labels, Term weights, CrossEntropyOptions options) {
  return mean_cross_entropy(logits, labels, &weights, options);
}
Tensor cross_entropy_of_rows(Term logits, Term labels) {
  const CallKey key("cross_entropy_of_rows");
  return apply_to_rows(key, logits, labels, nullptr, [](Builder& b, ValueId x, ValueId y, std::optional<ValueId>) {
    return build::cross_entropy_of_rows(b, x, y);
  });
}
Tensor correct_count(Term logits, Term labels) {
  return apply_to_rows(CallKey("correct_count"), logits, labels, nullptr, build::correct_count);
}
Tensor correct_count(Term logits, Term labels, Term weights) {
  return apply_to_rows(CallKey("correct_count"), logits, labels, &weights, build::correct_count);
}

Tensor dropout(Term x, double p) {
  return at_line(x.where, [&](Trace& t) {
    require(p >= 0 && p < 1, "dropout: the probability must be in [0, 1), got ", p);
    ValueId id = t.value(x);
    if (!t.training() || p == 0) return t.tensor(id);
    ValueId state = t.random_state();
    return t.tensor(build::dropout(t.builder, id, p, state, t.site()));
  });
}

}  // namespace karez
