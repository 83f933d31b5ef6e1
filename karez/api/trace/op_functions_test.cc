// Checks that every op has an API function in functions.h or tensor.h, or is listed with a reason for having none.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/scan.h"
#include "karez/api/trace/trace.h"
#include "karez/base/test_source.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {

// Returns the names of the ops in a program that calls each function once.
std::set<std::string> list_written_ops() {
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Trace::Scope scope(trace);
  Tensor x = trace.input("x", {DType::f32, {4, 6}}), image = trace.input("image", {DType::f32, {2, 3, 8, 8}});
  Tensor labels = trace.input("labels", {DType::i64, {4}}), kernel = trace.input("kernel", {DType::f32, {5, 3, 3, 3}});
  Tensor y = x + 1, z = ((x - y) * y / x), less_than = x < y, greater_equal = x >= y;
  Tensor numbers[] = {-x, relu(x), pow(x, y), maximum(x, y), minimum(x, y)};
  const Term first(x), second(y);
  for (const PointwiseFunction& function : pointwise_functions()) {
    if (function.operands == 1) call_op(function.name, {&first});
    else call_op(function.name, {&first, &second});
  }
  Tensor bools[] = {equal(x, y),
                    not_equal(x, y),
                    logical_and(less_than, greater_equal),
                    logical_or(less_than, greater_equal),
                    logical_not(less_than),
                    x <= y,
                    x > y};
  Tensor selections[] = {select(less_than, x, y), cast(less_than, DType::i32), with_layout(x, P(nullptr))};
  Tensor reductions[] = {sum(x, {0}), max(x, {0}), min(x, {0}), arg_max(x)};
  Tensor products[] = {matmul(x, transpose(y)), conv2d(image, kernel), max_pool(image, 2), avg_pool(image, 2)};
  Tensor shapes[] = {reshape(x, {24}), broadcast_to(x, {3, 4, 6}), slice(x, {0, 1}, {4, 2}), concat({x, y}),
                     pad(x, {0, 1}, {0, 1})};
  Tensor indexed[] = {gather(x, labels), one_hot(labels, 7), iota({4}, 0), full({4}, 1), dropout(x, 0.5)};
  const Sorted sorted = sort(x);
  Tensor axis_ops[] = {cumsum(x), take_along(x, sorted.indices), add_along(sorted.indices, x, 6)};
  const Scanned scanned = scan([](const auto& carry, const auto&) { return Scanned{carry}; }, {x}, {}, {.length = 2});
  std::set<std::string> names;
  for (const Node& node : trace.graph.nodes) names.insert(node.op->name);
  return names;
}

// Returns whether functions.h has an inline function that only calls this op, as docs/adding.md recommends for a new
// op.
bool is_called_in_header(const std::string& op) {
  std::ifstream in(source_folder() / "karez/api/functions.h");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return text.find(cat("return call_op(\"", op, "\"")) != text.npos;
}

TEST(OpFunctions, EveryOpHasAFunctionOrAReasonForHavingNone) {
  const std::map<std::string, std::string> reasons = {
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
      {"resize", "images::resize and its gradient write it"},
      {"scatter_add", "the gradient of gather writes it; apply calls it"},
  };
  std::set<std::string> written_ops = list_written_ops();
  for (const OpDef& op : all_op_rows()) {
    if (op.name.find("_grad") != std::string::npos) continue;  // gradients write it
    if (is_called_in_header(op.name)) written_ops.insert(op.name);
    EXPECT_NE(written_ops.contains(op.name), reasons.contains(op.name))
        << op.name
        << (written_ops.contains(op.name) ? " has a function, so it must not be listed with a reason for having none"
                                          : " has no function: add an inline function that returns call_op(...) to "
                                            "functions.h, or a function that "
                                            "list_written_ops calls, or add a reason for having none");
  }
}

}  // namespace
}  // namespace karez
