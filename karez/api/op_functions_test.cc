// Checks that every op has an API function, in functions.h or tensor.h, or a reason to have none.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/scan.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {

// The ops written by a program that calls each function once.
std::set<std::string> written() {
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Trace::Scope scope(trace);
  Tensor x = trace.input("x", {DType::f32, {4, 6}}), image = trace.input("image", {DType::f32, {2, 3, 8, 8}});
  Tensor labels = trace.input("labels", {DType::i64, {4}}), kernel = trace.input("kernel", {DType::f32, {5, 3, 3, 3}});
  Tensor y = x + 1, z = ((x - y) * y / x), below = x < y, above = x >= y;
  Tensor numbers[] = {exp(x),  log(x), sqrt(x), tanh(x), sigmoid(x), relu(x),   gelu(x),       gelu_tanh(x),
                      silu(x), abs(x), sin(x),  cos(x),  -x,         pow(x, y), maximum(x, y), minimum(x, y)};
  Tensor bools[] = {
      equal(x, y), not_equal(x, y), logical_and(below, above), logical_or(below, above), logical_not(below), x <= y,
      x > y};
  Tensor chosen[] = {select(below, x, y), cast(below, DType::i32), stop_gradient(x), with_layout(x, P(nullptr))};
  Tensor reduced[] = {sum(x, {0}), max(x, {0}), min(x, {0}), arg_max(x)};
  Tensor products[] = {matmul(x, transpose(y)), conv2d(image, kernel), max_pool(image, 2), avg_pool(image, 2)};
  Tensor moved[] = {reshape(x, {24}), broadcast_to(x, {3, 4, 6}), slice(x, {0, 1}, {4, 2}), concat({x, y}),
                    pad(x, {0, 1}, {0, 1})};
  Tensor picked[] = {gather(x, labels), one_hot(labels, 7), iota({4}, 0), full({4}, 1), dropout(x, 0.5)};
  const Sorted sorted = sort(x);
  Tensor along[] = {cumsum(x), take_along(x, sorted.indices), add_along(sorted.indices, x, 6)};
  const Scanned scanned = scan([](const auto& carry, const auto&) { return Scanned{carry}; }, {x}, {}, {.length = 2});
  std::set<std::string> names;
  for (const Node& node : trace.graph.nodes) names.insert(node.op->name);
  return names;
}

TEST(OpFunctions, EveryOpHasOneOrAReasonForNone) {
  const std::map<std::string, std::string> without = {
      {"adam", "optim::Adam writes it"},
      {"sgd", "optim::SGD writes it"},
      {"adam_if", "optim::Adam writes it if the loss is scaled"},
      {"sgd_if", "optim::SGD writes it if the loss is scaled"},
      {"assign", "the counter of random numbers and updates of variables write it"},
      {"copy", "passes write it"},
      {"box", "passes write it"},
      {"transfer", "a trace with several placements writes it"},
      {"accumulate", "passes write it"},
      {"micro_join", "passes write it"},
      {"micro_slice", "passes write it"},
      {"pointwise", "gradients write it; apply takes a user's expression"},
      {"scatter_add", "gather's gradient; by apply"},
      {"erf", "by apply"},
      {"rsqrt", "by apply"},
  };
  const std::set<std::string> message = written();
  for (const OpDef& op : all_op_rows()) {
    if (op.name.find("_grad") != std::string::npos) continue;  // gradients write it
    EXPECT_NE(message.contains(op.name), without.contains(op.name))
        << op.name
        << (message.contains(op.name) ? " has a function, and a reason for none"
                                      : " has no function: add one with a use here, or a reason for none");
  }
}

}  // namespace
}  // namespace karez
