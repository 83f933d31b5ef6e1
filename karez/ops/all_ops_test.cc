// Tests of the types and legal shardings of every op, pinned in tables.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/ops/test_node.h"

namespace karez::ops {
namespace {

// Each entry is a call of an op, with operands, attributes and results, followed by its shardings on a mesh axis of two
// devices.
constexpr const char* table = R"golden(
input() {dtype="f32", name="x", shape=[6, 4]} -> f32[6, 4]
  -> B | -> S(0)
input() {dtype="f32", name="x", shape=[]} -> f32[]
  -> B
variable() {dtype="f32", name="w", shape=[6, 4]} -> f32[6, 4]
  -> B | -> S(0) | -> S(1)
constant() {dtype="f32", shape=[6, 4], value=1} -> f32[6, 4]
  -> B | -> S(0) | -> S(1)
iota() {axis=1, dtype="i64", shape=[6, 4]} -> i64[6, 4]
  -> B | -> S(0) | -> S(1)
random_uniform(i64[2]) {dtype="f32", shape=[6, 4], site=3} -> f32[6, 4]
  B -> B | B -> S(0) | B -> S(1)
div(i64[6], i64[6]) -> i64[6]
  B, B -> B | S(0), S(0) -> S(0)
add(f32[6, 1, 4], f32[6, 1, 4]) -> f32[6, 1, 4]
  B, B -> B | S(0), S(0) -> S(0) | S(2), S(2) -> S(2) | P(sum), P(sum) -> P(sum)
pointwise(f32[6], f32[6], f32[6]) {expr="x0 * x1 + x2"} -> f32[6]
  B, B, B -> B | S(0), S(0), S(0) -> S(0) | P(sum), B, P(sum) -> P(sum) | B, P(sum), P(sum) -> P(sum)
pointwise(f32[6], f32[6], f32[6]) {expr="x0 * (x1 - x2)"} -> f32[6]
  B, B, B -> B | S(0), S(0), S(0) -> S(0) | B, P(sum), P(sum) -> P(sum) | P(sum), B, B -> P(sum)
cast(f32[6]) {to="f64"} -> f64[6]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum)
cast(f32[6]) {to="i32"} -> i32[6]
  B -> B | S(0) -> S(0)
cast(bool[6]) {to="f32"} -> f32[6]
  B -> B | S(0) -> S(0)
matmul(f32[64, 10], f32[10, 50]) -> f32[64, 50]
  B, B -> B | S(0), B -> S(0) | S(1), S(0) -> P(sum) | B, S(1) -> S(1) | P(sum), B -> P(sum) | B, P(sum) -> P(sum)
matmul(f32[10, 64], f32[50, 10]) {transpose_a=true, transpose_b=true} -> f32[64, 50]
  B, B -> B | S(0), S(1) -> P(sum) | S(1), B -> S(0) | B, S(0) -> S(1) | P(sum), B -> P(sum) | B, P(sum) -> P(sum)
matmul(f32[3, 64, 10], f32[3, 10, 50]) -> f32[3, 64, 50]
  B, B -> B | S(0), S(0) -> S(0) | S(1), B -> S(1) | S(2), S(1) -> P(sum) | B, S(2) -> S(2) | P(sum), B -> P(sum) | B, P(sum) -> P(sum)
conv2d(f32[8, 3, 6, 6], f32[4, 3, 3, 3]) {dilation=[1, 1], padding=[1, 1], stride=[1, 1]} -> f32[8, 4, 6, 6]
  B, B -> B | S(0), B -> S(0) | S(1), S(1) -> P(sum) | B, S(0) -> S(1) | P(sum), B -> P(sum) | B, P(sum) -> P(sum)
conv2d(f32[8, 4, 6, 6], f32[8, 1, 3, 3]) {dilation=[1, 1], groups=4, padding=[1, 1], stride=[1, 1]} -> f32[8, 8, 6, 6]
  B, B -> B | S(0), B -> S(0) | S(1), S(0) -> S(1) | P(sum), B -> P(sum) | B, P(sum) -> P(sum)
conv2d_grad_input(f32[8, 4, 6, 6], f32[4, 3, 3, 3]) {dilation=[1, 1], padding=[1, 1], shape=[8, 3, 6, 6], stride=[1, 1]} -> f32[8, 3, 6, 6]
  B, B -> B | S(0), B -> S(0) | S(1), S(0) -> P(sum) | B, S(1) -> S(1) | P(sum), B -> P(sum) | B, P(sum) -> P(sum)
conv2d_grad_weight(f32[8, 3, 6, 6], f32[8, 4, 6, 6]) {dilation=[1, 1], kernel=[3, 3], padding=[1, 1], stride=[1, 1]} -> f32[4, 3, 3, 3]
  B, B -> B | S(0), S(0) -> P(sum) | S(1), B -> S(1) | B, S(1) -> S(0) | P(sum), B -> P(sum) | B, P(sum) -> P(sum)
max_pool(f32[8, 3, 6, 6]) {kernel=[2, 2], padding=[0, 0], stride=[2, 2]} -> f32[8, 3, 3, 3], i32[8, 3, 3, 3]
  B -> B, B | S(0) -> S(0), S(0) | S(1) -> S(1), S(1)
max_pool_grad(f32[8, 3, 3, 3], i32[8, 3, 3, 3]) {kernel=[2, 2], padding=[0, 0], shape=[8, 3, 6, 6], stride=[2, 2]} -> f32[8, 3, 6, 6]
  B, B -> B | S(0), S(0) -> S(0) | S(1), S(1) -> S(1) | P(sum), B -> P(sum)
avg_pool(f32[8, 3, 7, 6]) {kernel=[3, 2], padding=[1, 0], stride=[2, 2]} -> f32[8, 3, 4, 3]
  B -> B | S(0) -> S(0) | S(1) -> S(1) | P(sum) -> P(sum)
avg_pool_grad(f32[8, 3, 4, 3]) {kernel=[3, 2], padding=[1, 0], shape=[8, 3, 7, 6], stride=[2, 2]} -> f32[8, 3, 7, 6]
  B -> B | S(0) -> S(0) | S(1) -> S(1) | P(sum) -> P(sum)
reduce_sum(f32[6, 4]) {axes=[1]} -> f32[6]
  B -> B | S(0) -> S(0) | S(1) -> P(sum) | P(sum) -> P(sum)
reduce_sum(f32[6, 4]) {axes=[0, 1]} -> f32[]
  B -> B | S(0) -> P(sum) | S(1) -> P(sum) | P(sum) -> P(sum)
reduce_max(f32[6, 4]) {axes=[1]} -> f32[6]
  B -> B | S(0) -> S(0) | S(1) -> P(max)
reduce_min(i64[6, 4]) {axes=[0]} -> i64[4]
  B -> B | S(0) -> P(min) | S(1) -> S(0)
broadcast(f32[4]) {dims=[1], shape=[6, 4, 5]} -> f32[6, 4, 5]
  B -> B | S(0) -> S(1) | B -> S(0) | B -> S(2) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
reshape(f32[3, 4]) {shape=[12]} -> f32[12]
  B -> B | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
reshape(f32[4, 3]) {shape=[12]} -> f32[12]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
reshape(f32[12]) {shape=[3, 4]} -> f32[3, 4]
  B -> B | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
reshape(f32[12]) {shape=[4, 3]} -> f32[4, 3]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
reshape(f32[8, 16, 5, 5]) {shape=[8, 400]} -> f32[8, 400]
  B -> B | S(0) -> S(0) | S(1) -> S(1) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
reshape(f32[6, 4, 1, 5]) {shape=[24, 5]} -> f32[24, 5]
  B -> B | S(0) -> S(0) | S(3) -> S(1) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
reshape(f32[4, 6]) {shape=[8, 3]} -> f32[8, 3]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
reshape(bool[0, 3]) {shape=[3, 0]} -> bool[3, 0]
  B -> B | P(max) -> P(max) | P(min) -> P(min)
transpose(f32[6, 4, 5]) {perm=[2, 0, 1]} -> f32[5, 6, 4]
  B -> B | S(0) -> S(1) | S(1) -> S(2) | S(2) -> S(0) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
slice(f32[6, 4]) {begin=[0, 1], size=[6, 2]} -> f32[6, 2]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
concat(f32[6, 4], f32[6, 2]) {axis=1} -> f32[6, 6]
  B, B -> B | S(0), S(0) -> S(0) | P(sum), P(sum) -> P(sum)
pad(f32[6, 4]) {high=[0, 2], low=[0, 1], value=0} -> f32[6, 7]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum)
pad(f32[6, 4]) {high=[0, 2], low=[0, 1], value=1} -> f32[6, 7]
  B -> B | S(0) -> S(0)
gather(f32[10, 4], i64[6, 5]) -> f32[6, 5, 4]
  B, B -> B | S(0), B -> P(sum) | S(1), B -> S(2) | B, S(0) -> S(0) | B, S(1) -> S(1) | P(sum), B -> P(sum)
scatter_add(i64[6, 5], f32[6, 5, 4]) {rows=10} -> f32[10, 4]
  B, B -> B | S(0), S(0) -> P(sum) | S(1), S(1) -> P(sum) | B, S(2) -> S(1) | B, B -> S(0) | B, P(sum) -> P(sum)
cumsum(f32[6, 4]) {axis=1} -> f32[6, 4]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum)
sort(f32[6, 4]) {axis=1, first=3} -> f32[6, 3], i64[6, 3]
  B -> B, B | S(0) -> S(0), S(0)
take_along(f32[6, 4], i64[6, 3]) {axis=1} -> f32[6, 3]
  B, B -> B | S(0), S(0) -> S(0) | S(1), B -> P(sum) | B, S(1) -> S(1) | P(sum), B -> P(sum)
add_along(i64[6, 3], f32[6, 3]) {axis=1, size=4} -> f32[6, 4]
  B, B -> B | S(0), S(0) -> S(0) | S(1), S(1) -> P(sum) | B, B -> S(1) | B, P(sum) -> P(sum)
one_hot(i32[6]) {depth=10, dtype="f32"} -> f32[6, 10]
  B -> B | S(0) -> S(0) | B -> S(1)
arg_max(f32[6, 4]) {axis=1} -> i64[6]
  B -> B | S(0) -> S(0)
sgd(f32[6, 4], f32[6, 4], f32[6, 4], f32[]) {momentum=0.9, nesterov=false, weight_decay=0} -> f32[6, 4], f32[6, 4]
  B, B, B, B -> B, B | S(0), S(0), S(0), B -> S(0), S(0) | S(1), S(1), S(1), B -> S(1), S(1)
adam(f32[6], f32[6], f32[6], f32[6], f32[], i64[]) {beta1=0.9, beta2=0.999, decoupled=false, eps=1e-08, weight_decay=0} -> f32[6], f32[6], f32[6]
  B, B, B, B, B, B -> B, B, B | S(0), S(0), S(0), S(0), B, B -> S(0), S(0), S(0)
sgd_if(f32[6], f32[6], f32[6], f32[], bool[]) {momentum=0.9, nesterov=false, weight_decay=0} -> f32[6], f32[6]
  B, B, B, B, B -> B, B | S(0), S(0), S(0), B, B -> S(0), S(0)
adam_if(f32[6], f32[6], f32[6], f32[6], f32[], i64[], bool[]) {beta1=0.9, beta2=0.999, decoupled=false, eps=1e-08, weight_decay=0} -> f32[6], f32[6], f32[6]
  B, B, B, B, B, B, B -> B, B, B | S(0), S(0), S(0), S(0), B, B, B -> S(0), S(0), S(0)
assign(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0)
copy(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
scan(f32[4], f32[3, 2], f32[5]) {carries=1, rows="f32[7]", sequences=1, trips=3} -> f32[4], f32[3, 7]
  B, B, B -> B, B
layout(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
accumulate(f32[6, 4]) -> f32[6, 4]
  B -> B | S(0) -> S(0) | S(1) -> S(1) | P(sum) -> P(sum)
micro_join(f32[6, 4]) {axis=0, parts=3} -> f32[18, 4]
  B -> B | S(1) -> S(1) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
micro_slice(f32[6, 4]) {axis=0, parts=3} -> f32[2, 4]
  B -> B | S(1) -> S(1) | P(sum) -> P(sum) | P(max) -> P(max) | P(min) -> P(min)
)golden";

// The same table for the examples in the op rows (OpDef::example); written by `./dev test --update AllOps`.
constexpr const char* table_of_op_examples = R"golden(
neg(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum)
exp(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
log(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
sqrt(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
sqrt_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | P(sum), B -> P(sum)
rsqrt(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
rsqrt_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
tanh(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
tanh_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
sigmoid(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
sigmoid_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
relu(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
relu_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
gelu(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
gelu_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
gelu_tanh(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
gelu_tanh_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
silu(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
silu_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
erf(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
erf_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
abs(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
abs_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
sin(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
sin_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
cos(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0)
cos_grad(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
stop_gradient(f32[6]) -> f32[6]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum)
add(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | P(sum), P(sum) -> P(sum)
sub(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | P(sum), P(sum) -> P(sum)
mul(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | P(sum), B -> P(sum) | B, P(sum) -> P(sum)
div(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | P(sum), B -> P(sum)
div_grad(f32[6], f32[6], f32[6]) -> f32[6]
  B, B, B -> B | S(0), S(0), S(0) -> S(0) | P(sum), B, B -> P(sum) | B, P(sum), B -> P(sum)
pow(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0)
pow_grad(f32[6], f32[6], f32[6]) -> f32[6]
  B, B, B -> B | S(0), S(0), S(0) -> S(0) | B, B, P(sum) -> P(sum)
pow_grad2(f32[6], f32[6], f32[6]) -> f32[6]
  B, B, B -> B | S(0), S(0), S(0) -> S(0) | B, P(sum), B -> P(sum) | B, B, P(sum) -> P(sum)
max(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0)
max_grad(f32[6], f32[6], f32[6]) -> f32[6]
  B, B, B -> B | S(0), S(0), S(0) -> S(0) | B, B, P(sum) -> P(sum)
min(f32[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0)
min_grad(f32[6], f32[6], f32[6]) -> f32[6]
  B, B, B -> B | S(0), S(0), S(0) -> S(0) | B, B, P(sum) -> P(sum)
eq(f32[6], f32[6]) -> bool[6]
  B, B -> B | S(0), S(0) -> S(0)
ne(f32[6], f32[6]) -> bool[6]
  B, B -> B | S(0), S(0) -> S(0)
lt(f32[6], f32[6]) -> bool[6]
  B, B -> B | S(0), S(0) -> S(0)
le(f32[6], f32[6]) -> bool[6]
  B, B -> B | S(0), S(0) -> S(0)
gt(f32[6], f32[6]) -> bool[6]
  B, B -> B | S(0), S(0) -> S(0)
ge(f32[6], f32[6]) -> bool[6]
  B, B -> B | S(0), S(0) -> S(0)
and(bool[6], bool[6]) -> bool[6]
  B, B -> B | S(0), S(0) -> S(0)
or(bool[6], bool[6]) -> bool[6]
  B, B -> B | S(0), S(0) -> S(0)
not(bool[6]) -> bool[6]
  B -> B | S(0) -> S(0)
select(bool[6], f32[6], f32[6]) -> f32[6]
  B, B, B -> B | S(0), S(0), S(0) -> S(0) | B, P(sum), P(sum) -> P(sum)
select_grad(bool[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
select_grad2(bool[6], f32[6]) -> f32[6]
  B, B -> B | S(0), S(0) -> S(0) | B, P(sum) -> P(sum)
resize(f32[6, 4]) {axis=1, size=3} -> f32[6, 3]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum)
resize_grad(f32[6, 4]) {axis=1, size=3} -> f32[6, 3]
  B -> B | S(0) -> S(0) | P(sum) -> P(sum)
)golden";

struct Example {
  std::string op, types, attrs, call;
};

Example parse_example(const std::string& call) {
  const auto open = call.find('('), close = call.find(')');
  return {call.substr(0, open), call.substr(open + 1, close - open - 1), std::string(trim(call.substr(close + 1))),
          call};
}

std::vector<Example> examples_of_table() {
  std::vector<Example> out;
  for (const std::string& line : split(table, '\n'))
    if (!line.empty() && line[0] != ' ') out.push_back(parse_example(line.substr(0, line.rfind(" -> "))));
  return out;
}

std::vector<Example> examples_of_ops() {
  std::vector<Example> out;
  for (const OpDef& op : all_op_rows())
    if (!op.example.empty()) out.push_back(parse_example(op.example));
  return out;
}

std::vector<Example> examples() {
  std::vector<Example> out = examples_of_table();
  for (Example& e : examples_of_ops()) out.push_back(std::move(e));
  return out;
}

std::string types_and_shardings(const std::vector<Example>& examples) {
  const OpTable ops = all_ops();
  std::string text = "\n";
  for (const Example& e : examples) {
    SingleNodeGraph node = single_node_graph(ops, e.op, e.types, e.attrs);
    text += cat(e.call, " -> ", results_of(node), "\n  ", shardings_of(node, 2), "\n");
  }
  return text;
}

TEST(AllOps, TypesAndShardingsOfEveryOpMatchTheTables) {
  EXPECT_TRUE(golden(types_and_shardings(examples_of_table()), table));
  EXPECT_TRUE(golden(types_and_shardings(examples_of_ops()), table_of_op_examples));
}

TEST(AllOps, EachOpExceptBoxAndTransferHasAnExample) {
  OpTable ops = all_ops();
  std::set<std::string> covered{"box", "transfer"};
  for (const Example& e : examples()) covered.insert(e.op);
  for (const OpDef* op : ops.rows()) EXPECT_TRUE(covered.count(op->name)) << op->name << " has no example";
}

TEST(AllOps, EachOpIsDocumentedAndHasAGradientOrAReason) {
  for (const OpDef& op : all_op_rows()) {
    EXPECT_GT(op.doc.size(), 10u) << op.name;
    EXPECT_NE(static_cast<bool>(op.grad), !op.no_grad.empty())
        << op.name << " has "
        << (op.grad ? "both a gradient and a reason for having none"
                    : "neither a gradient nor a reason for having none");
    for (auto [in, out] : op.in_place) EXPECT_TRUE((op.inputs < 0 || in < op.inputs) && out >= 0) << op.name;
  }
}

TEST(AllOps, ReasonsForAMissingGradientAreListed) {
  std::set<std::string> reasons;
  for (const OpDef& op : all_op_rows())
    if (!op.grad)
      reasons.insert(cat(op.no_grad == "its result is bool" ? "a comparison" : op.name, ": ", op.no_grad, "\n"));
  EXPECT_TRUE(golden(join(reasons, ""), R"(a comparison: its result is bool
accumulate: it is inserted after differentiation
adam: an update
adam_if: an update
arg_max: its result is an index
assign: an update
box: boxes are inserted after differentiation
constant: it has no operands
input: it has no operands
iota: it has no operands
micro_join: it is inserted after differentiation
micro_slice: it is inserted after differentiation
one_hot: its operand is an index
random_uniform: its operand is a seed and a step
sgd: an update
sgd_if: an update
variable: it has no operands
)"));
}

TEST(AllOps, AnIndexOfASplitDimensionMasksThePartialResult) {
  const OpTable ops = all_ops();
  for (const auto& [op, types, attrs] :
       {std::tuple("gather", "f32[6, 4], i64[3]", ""), {"take_along", "f32[6, 4], i64[6, 3]", "{axis=1}"}}) {
    const SingleNodeGraph node = single_node_graph(ops, op, types, attrs);
    EXPECT_EQ(signature_of(node.view()).masked.size(), 1u) << op;
  }
}

// A result that may overwrite an operand must have the type of the operand.
TEST(AllOps, ResultsInPlaceHaveTheTypeOfTheirOperands) {
  OpTable ops = all_ops();
  for (const Example& e : examples()) {
    SingleNodeGraph node = single_node_graph(ops, e.op, e.types, e.attrs);
    for (auto [in, out] : node.view().node().op->in_place)
      EXPECT_EQ(node.view().in_type(static_cast<std::size_t>(in)), node.view().out_type(static_cast<std::size_t>(out)))
          << e.call;
  }
}

std::string cost_text(const OpTable& ops, const char* op, const char* types, const char* attrs) {
  SingleNodeGraph node = single_node_graph(ops, op, types, attrs);
  Cost cost = cost_of(*node.view().node().op, node.view().in_types(), node.view().out_types(), node.view().attrs());
  const std::size_t rate = rate_of(cost);
  const std::string name = rate == rate_count ? "none" : std::string(rate_name(rate));
  return cat(name.substr(0, name.find('.')), " ", static_cast<std::int64_t>(cost.flops), " flops ",
             static_cast<std::int64_t>(cost.bytes), " bytes");
}

TEST(AllOps, CostsCountEveryMultiplicationTwiceAndEveryByteOnce) {
  OpTable ops = all_ops();
  EXPECT_EQ(cost_text(ops, "matmul", "f32[64, 10], f32[10, 50]", ""), "matmul 64000 flops 17360 bytes");
  EXPECT_EQ(cost_text(ops, "matmul", "f32[10, 64], f32[10, 50]", "{transpose_a=true}"),
            "matmul 64000 flops 17360 bytes");
  // 2 * (8 * 4 * 6 * 6) results * (3 * 3 * 3) products, the same for all three ops.
  EXPECT_EQ(cost_text(ops, "conv2d", "f32[8, 3, 6, 6], f32[4, 3, 3, 3]", "{padding=[1, 1], stride=[1, 1]}"),
            "conv 62208 flops 8496 bytes");
  EXPECT_EQ(cost_text(ops, "conv2d_grad_input", "f32[8, 4, 6, 6], f32[4, 3, 3, 3]",
                      "{padding=[1, 1], shape=[8, 3, 6, 6], stride=[1, 1]}"),
            "conv_input 62208 flops 8496 bytes");
  EXPECT_EQ(cost_text(ops, "conv2d_grad_weight", "f32[8, 3, 6, 6], f32[8, 4, 6, 6]",
                      "{kernel=[3, 3], padding=[1, 1], stride=[1, 1]}"),
            "conv_weight 62208 flops 8496 bytes");
  EXPECT_EQ(cost_text(ops, "add", "f64[6], f64[6]", ""), "pointwise 0 flops 144 bytes");
  EXPECT_EQ(cost_text(ops, "reshape", "f64[6]", "{shape=[2, 3]}"), "none 0 flops 0 bytes");
  EXPECT_EQ(cost_text(ops, "gather", "f32[1000000, 4], i64[5]", ""),
            "index 0 flops 200 bytes");  // counts the rows, not the table
}

}  // namespace
}  // namespace karez::ops
