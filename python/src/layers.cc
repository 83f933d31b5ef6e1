// Bindings of the functions that layers compute, of losses, and of updates of parameters.
#include "karez/api/batch_parts.h"
#include "karez/api/convolution.h"

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

void init_normalising(nb::module_& m) {
  m.def(
      "layer_norm",
      [](const Operand& input, const Operand& weight, const Operand& bias, double eps) {
        return Value(layer_norm(input, weight, bias, eps));
      },
      "input"_a, "weight"_a, "bias"_a, "eps"_a = 1e-5);
  m.def(
      "rms_norm",
      [](const Operand& input, const Operand& weight, std::optional<double> eps) {
        return Value(rms_norm(input, weight, eps));
      },
      "input"_a, "weight"_a, "eps"_a = nb::none());
  m.def(
      "batch_norm",
      [](const Operand& input, const Value& mean, const Value& var, const Operand& weight, const Operand& bias,
         bool training, double momentum, double eps) {
        return Value(batch_norm(input, {mean.parameter(), var.parameter(), momentum}, training, weight, bias, eps));
      },
      "input"_a, "running_mean"_a, "running_var"_a, "weight"_a, "bias"_a, "training"_a = false, "momentum"_a = 0.1,
      "eps"_a = 1e-5);
  m.def(
      "group_norm",
      [](const Operand& input, std::int64_t num_groups, const Operand& weight, const Operand& bias, double eps) {
        return Value(group_norm(input, num_groups, weight, bias, eps));
      },
      "input"_a, "num_groups"_a, "weight"_a, "bias"_a, "eps"_a = 1e-5);
  m.def(
      "dropout", [](const Operand& input, double p) { return Value(dropout(input, p)); }, "input"_a, "p"_a = 0.5);
}

void init_products(nb::module_& m) {
  m.def(
      "linear",
      [](const Operand& input, const Operand& weight, const std::optional<Operand>& bias) {
        return Value(bias ? linear(input, weight, *bias) : linear(input, weight));
      },
      "input"_a, "weight"_a, "bias"_a = nb::none());
  m.def(
      "conv2d",
      [](const Operand& input, const Operand& weight, const std::optional<Operand>& bias, const Ints& stride,
         const Ints& padding, const Ints& dilation, std::int64_t groups) {
        const Conv2dOptions options{stride, padding, dilation};
        if (groups != 1) {
          const Tensor y = grouped_conv2d(input, weight, groups, options);
          return Value(bias ? y + reshape(*bias, {-1, 1, 1}) : y);
        }
        return Value(bias ? conv2d(input, weight, *bias, options) : conv2d(input, weight, options));
      },
      "input"_a, "weight"_a, "bias"_a, "stride"_a, "padding"_a, "dilation"_a, "groups"_a);
  m.def(
      "conv_transpose2d",
      [](const Operand& input, const Operand& weight, const Ints& stride, const Ints& padding,
         const Ints& output_padding, const Ints& dilation, std::int64_t groups) {
        return Value(conv_transpose2d(input, weight, {stride, padding, output_padding, dilation, groups}));
      },
      "input"_a, "weight"_a, "stride"_a, "padding"_a, "output_padding"_a, "dilation"_a, "groups"_a);
  m.def(
      "conv1d",
      [](const Operand& input, const Operand& weight, const std::optional<Operand>& bias, std::int64_t stride,
         std::int64_t padding, std::int64_t dilation) {
        const Conv1dOptions options{stride, padding, dilation};
        return Value(bias ? conv1d(input, weight, *bias, options) : conv1d(input, weight, options));
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1);
  m.def(
      "max_pool2d",
      [](const Operand& input, std::int64_t kernel_size, std::optional<std::int64_t> stride, std::int64_t padding) {
        return Value(max_pool(input, kernel_size, stride.value_or(0), padding));
      },
      "input"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0);
  m.def(
      "avg_pool2d",
      [](const Operand& input, std::int64_t kernel_size, std::optional<std::int64_t> stride, std::int64_t padding) {
        return Value(avg_pool(input, kernel_size, stride.value_or(0), padding));
      },
      "input"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0);
  m.def(
      "scaled_dot_product_attention",
      [](const Operand& query, const Operand& key, const Operand& value, const std::optional<Operand>& attn_mask,
         bool is_causal, std::optional<double> scale) {
        const AttentionOptions options{is_causal, scale};
        return Value(attn_mask ? scaled_dot_product_attention(query, key, value, *attn_mask, options)
                               : scaled_dot_product_attention(query, key, value, options));
      },
      "query"_a, "key"_a, "value"_a, "attn_mask"_a = nb::none(), nb::kw_only(), "is_causal"_a = false,
      "scale"_a = nb::none());
  m.def(
      "attention_weights",
      [](const Operand& query, const Operand& key, const std::optional<Operand>& attn_mask, bool is_causal,
         std::optional<double> scale) {
        const AttentionOptions options{is_causal, scale};
        return Value(attn_mask ? attention_weights(query, key, *attn_mask, options)
                               : attention_weights(query, key, options));
      },
      "query"_a, "key"_a, "attn_mask"_a = nb::none(), nb::kw_only(), "is_causal"_a = false, "scale"_a = nb::none());
  m.def(
      "rotary",
      [](const Operand& input, double base, std::int64_t first, bool interleaved) {
        return Value(rotary(input, {base, first, interleaved}));
      },
      "input"_a, nb::kw_only(), "base"_a = 10000.0, "first"_a = 0, "interleaved"_a = false);
}

void init_losses(nb::module_& m) {
  m.def(
      "cross_entropy",
      [](const Operand& input, const Operand& target, const std::optional<Operand>& weights,
         std::optional<std::int64_t> ignore_index) {
        const CrossEntropyOptions options{ignore_index};
        return Value(weights ? cross_entropy(input, target, *weights, options) : cross_entropy(input, target, options));
      },
      "input"_a, "target"_a, nb::kw_only(), "row_weights"_a = nb::none(), "ignore_index"_a = nb::none());
  m.def(
      "cross_entropy_of_rows",
      [](const Operand& input, const Operand& target) { return Value(cross_entropy_of_rows(input, target)); },
      "input"_a, "target"_a);
  m.def(
      "correct_count",
      [](const Operand& input, const Operand& target, const std::optional<Operand>& weights) {
        return Value(weights ? correct_count(input, target, *weights) : correct_count(input, target));
      },
      "input"_a, "target"_a, nb::kw_only(), "row_weights"_a = nb::none());
}

}  // namespace

void init_layers(nb::module_& m) {
  init_normalising(m);
  init_products(m);
  init_losses(m);
  m.def("tracing", &tracing);
  m.def("batch_parts", [](const Operand& value) { return batch_parts(value); });
  m.def(
      "update", [](const Value& parameter, const Operand& value) { update(parameter.parameter(), value); },
      "parameter"_a, "value"_a);
}

}  // namespace karez::python
