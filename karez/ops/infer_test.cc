// Tests the errors for operands that do not match: each error reports both sizes.
#include <gtest/gtest.h>

#include "karez/ops/test_node.h"

namespace karez::ops {
namespace {

struct InvalidCase {
  const char *op, *types, *attrs, *message;
};

const InvalidCase invalid_cases[] = {
    {"matmul", "f32[64, 10], f32[12, 50]", "", "matmul: inner sizes differ: 10 and 12 (f32[64, 10] x f32[12, 50])"},
    {"matmul", "f32[64, 10], f32[10, 50]", "{transpose_b=true}",
     "matmul: inner sizes differ: 10 and 50 (f32[64, 10] x f32[10, 50]) with {transpose_b=true}"},
    {"matmul", "f32[2, 4, 5], f32[3, 5, 6]", "",
     "matmul: batch sizes differ: [2] and [3] (f32[2, 4, 5] x f32[3, 5, 6])"},
    {"matmul", "f32[4, 5], f32[5]", "", "matmul: ranks must be equal and at least 2, got f32[4, 5] x f32[5]"},
    {"matmul", "f32[4, 5], f64[5, 6]", "", "matmul: dtypes differ: f32[4, 5] and f64[5, 6]"},
    {"matmul", "f32[4, 5]", "", "matmul expects 2 operands, got 1"},
    {"add", "f32[4], f32[5]", "", "add: shapes differ: f32[4] and f32[5]"},
    {"add", "f32[4], f64[4]", "", "add: dtypes differ: f32[4] and f64[4]"},
    {"add", "bool[4], bool[4]", "", "add: expected numbers, got bool[4]; cast it first"},
    {"exp", "i32[4]", "", "exp: expected f32 or f64, got i32[4]; cast it first"},
    {"and", "f32[4], bool[4]", "", "and: operand 0 is a condition and must be bool, got f32[4]"},
    {"select", "f32[4], f32[4], f32[4]", "", "select: operand 0 is a condition and must be bool, got f32[4]"},
    {"select", "bool[4], f32[4], i32[4]", "", "select: dtypes differ: f32[4] and i32[4]"},
    {"pointwise", "f32[4]", R"({expr="x0 + x1"})", "pointwise: x0 + x1 uses x1, but the node has 1 operands"},
    {"pointwise", "f32[4]", R"({dtype_out="bool", expr="x0 + 1"})", "pointwise: x0 + 1 has dtype f32, expected bool"},
    {"cast", "f32[4]", R"({to="f8"})", "unknown dtype 'f8'; expected one of: f32, f64, i32, i64, bool, bf16, f16, u8"},
    {"conv2d", "f32[8, 3, 6, 6], f32[4, 2, 3, 3]", "{padding=[0, 0], stride=[1, 1]}",
     "conv2d: channels differ: 3 and 2 (f32[8, 3, 6, 6] x f32[4, 2, 3, 3])"},
    {"conv2d", "f32[8, 4, 6, 6], f32[4, 2, 3, 3]", "{groups=3, padding=[0, 0], stride=[1, 1]}",
     "conv2d: 3 groups do not divide 4 input channels and 4 output channels"},
    {"conv2d", "f32[8, 4, 6, 6], f32[4, 4, 3, 3]", "{groups=2, padding=[0, 0], stride=[1, 1]}",
     "conv2d: channels differ: 2 and 4 (f32[8, 4, 6, 6] x f32[4, 4, 3, 3]) in 2 groups"},
    {"conv2d_grad_weight", "f32[8, 4, 6, 6], f32[8, 3, 6, 6]",
     "{groups=2, kernel=[3, 3], padding=[1, 1], stride=[1, 1]}",
     "conv2d_grad_weight: 2 groups do not divide 4 input channels and 3 output channels"},
    {"conv2d_grad_input", "f32[8, 4, 6, 6], f32[4, 3, 3, 3]",
     "{groups=2, padding=[1, 1], shape=[8, 3, 6, 6], stride=[1, 1]}",
     "conv2d_grad_input: 2 groups do not divide 3 input channels and 4 output channels"},
    {"conv2d", "f32[8, 3, 2, 6], f32[4, 3, 3, 3]", "{padding=[0, 0], stride=[1, 1]}",
     "conv2d: the window size 3 exceeds the padded height 2 of [8, 3, 2, 6]"},
    {"conv2d", "f32[8, 3, 6], f32[4, 3, 3, 3]", "{padding=[0, 0], stride=[1, 1]}",
     "conv2d: x [n, c, h, w] must have rank 4, got f32[8, 3, 6]"},
    {"conv2d", "f32[8, 3, 6, 6], f32[4, 3, 3, 3]", "{padding=[0, 0], stride=[0, 1]}",
     "conv2d: entries of stride must be at least 1, got [0, 1]"},
    {"conv2d_grad_input", "f32[8, 4, 5, 6], f32[4, 3, 3, 3]", "{padding=[1, 1], shape=[8, 3, 6, 6], stride=[1, 1]}",
     "conv2d_grad_input: windows over an image [8, 3, 6, 6] give [6, 6] results, got [5, 6]"},
    {"conv2d_grad_weight", "f32[8, 3, 6, 6], f32[7, 4, 6, 6]", "{kernel=[3, 3], padding=[1, 1], stride=[1, 1]}",
     "conv2d_grad_weight: batch sizes differ: 8 and 7 (f32[8, 3, 6, 6] x f32[7, 4, 6, 6])"},
    {"max_pool", "f32[8, 3, 6, 6]", "{kernel=[2, 2], padding=[2, 0], stride=[2, 2]}",
     "max_pool: padding [2, 0] is more than half of the kernel [2, 2]"},
    {"max_pool_grad", "f32[8, 3, 3, 3], i64[8, 3, 3, 3]",
     "{kernel=[2, 2], padding=[0, 0], shape=[8, 3, 6, 6], stride=[2, 2]}",
     "max_pool_grad: the index must be i32 with the shape of dy f32[8, 3, 3, 3], got i64[8, 3, 3, 3]"},
    {"avg_pool", "i32[8, 3, 6, 6]", "{kernel=[2, 2], padding=[0, 0], stride=[2, 2]}",
     "avg_pool: expected f32 or f64, got i32[8, 3, 6, 6]; cast it first"},
    {"reduce_sum", "f32[6, 4]", "{axes=[2]}", "reduce_sum: axis 2 is not a dimension of f32[6, 4]"},
    {"reduce_sum", "f32[6, 4]", "{axes=[1, 1]}", "reduce_sum: axis 1 occurs twice in [1, 1]"},
    {"reduce_sum", "bool[6, 4]", "{axes=[1]}", "reduce_sum: expected numbers, got bool[6, 4]; cast it first"},
    {"broadcast", "f32[4]", "{dims=[0], shape=[6, 4]}",
     "broadcast: sizes differ: dimension 0 of f32[4] and dimension 0 of [6, 4]"},
    {"broadcast", "f32[4, 6]", "{dims=[1, 0], shape=[6, 4]}", "broadcast: dims must increase, got [1, 0]"},
    {"reshape", "f32[6, 4]", "{shape=[5, 5]}", "reshape: f32[6, 4] has 24 elements, but [5, 5] has 25"},
    {"reshape", "f32[6, 4]", "{shape=[-1, 4]}", "reshape: sizes must be at least 0, got [-1, 4]"},
    {"transpose", "f32[6, 4]", "{perm=[1, 1]}",
     "transpose: perm [1, 1] is not a permutation of the dimensions of f32[6, 4]"},
    {"slice", "f32[6, 4]", "{begin=[0, 3], size=[6, 2]}", "slice: 3 to 5 is not within dimension 1 of f32[6, 4]"},
    {"concat", "f32[6, 4], f32[5, 4]", "{axis=1}",
     "concat: shapes differ in dimensions other than axis 1: f32[6, 4] and f32[5, 4]"},
    {"concat", "", "{axis=0}", "concat: expected at least one operand"},
    {"pad", "i32[6]", "{high=[1], low=[0], value=0.5}", "pad: 0.5 is not a valid i32"},
    {"pad", "f32[6]", "{high=[1], low=[-1]}", "pad: entries of low must be at least 0, got [-1]"},
    {"gather", "f32[10, 4], f32[6]", "", "gather: an index must be i32 or i64, got f32[6]"},
    {"scatter_add", "i64[6, 5], f32[5, 6, 4]", "{rows=10}",
     "scatter_add: the shape of updates f32[5, 6, 4] must begin with the shape of index i64[6, 5]"},
    {"cumsum", "f32[6]", "{axis=1}", "cumsum: axis 1 is not a dimension of f32[6]"},
    {"gather", "bool[6], i32[3]", "", "gather: expected numbers, got bool[6]; cast it first"},
    {"cumsum", "bool[6]", "{axis=0}", "cumsum: expected numbers, got bool[6]; cast it first"},
    {"resize", "i32[6]", "{axis=0, size=2}", "resize: expected u8 or floats, got i32[6]; cast it first"},
    {"resize", "f32[6]", "{axis=0, size=0}", "resize: sizes must be at least 1, got 6 to 0"},
    {"resize_grad", "f32[6, 0]", "{axis=1, size=2}", "resize_grad: sizes must be at least 1, got 0 to 2"},
    {"sort", "f32[6, 4]", "{axis=1, first=5}", "sort: first is 5, but axis 1 of f32[6, 4] has size 4"},
    {"take_along", "f32[6, 4], i64[5, 3]", "{axis=1}",
     "take_along: f32[6, 4] and i64[5, 3] differ in dimensions other than axis 1"},
    {"take_along", "f32[6, 4], i64[6]", "{axis=1}",
     "take_along: f32[6, 4] and i64[6] differ in dimensions other than axis 1"},
    {"add_along", "f32[6, 3], f32[6, 3]", "{axis=1, size=4}", "add_along: an index must be i32 or i64, got f32[6, 3]"},
    {"add_along", "i64[6, 3], f32[6, 4]", "{axis=1, size=4}",
     "add_along: the index i64[6, 3] and updates f32[6, 4] have different shapes"},
    {"one_hot", "f32[6]", R"({depth=10, dtype="f32"})", "one_hot: an index must be i32 or i64, got f32[6]"},
    {"arg_max", "f32[6, 0]", "{axis=1}", "arg_max: axis 1 of f32[6, 0] is empty"},
    {"sgd", "f32[6], f32[5], f32[6], f32[]", "{momentum=0.9}", "sgd: operands differ: f32[6] and f32[5]"},
    {"sgd", "f32[6], f32[6], f32[6], f64[]", "{momentum=0.9}",
     "sgd: the learning rate must be a scalar f32[], got f64[]"},
    {"sgd", "f32[6], f32[6], f32[6], f32[]", "{momentum=-0.5}",
     "sgd: momentum must be at least 0 and less than inf, got -0.5"},
    {"adam", "f32[6], f32[6], f32[6], f32[6], f32[], i64[]", "{beta1=1.0, beta2=0.999, eps=1e-08}",
     "adam: beta1 must be at least 0 and less than 1.0, got 1.0"},
    {"adam", "f32[6], f32[6], f32[6], f32[6], f32[], i32[]", "{beta1=0.9, beta2=0.999, eps=1e-08}",
     "adam: the step must be a scalar i64[], got i32[]"},
    {"sgd_if", "f32[6], f32[6], f32[6], f32[], i32[]", "{momentum=0.9}",
     "sgd_if: apply must be a scalar bool[], got i32[]"},
    {"adam_if", "f32[6], f32[6], f32[6], f32[6], f32[], i32[], bool[]", "{beta1=0.9, beta2=0.999, eps=1e-08}",
     "adam: the step must be a scalar i64[], got i32[]"},
    {"constant", "", R"({dtype="f32", shape=[2]})", "constant: must have either a value or data, got neither"},
    {"constant", "", R"({dtype="i32", shape=[], value=3000000000})", "constant: 3000000000 is not a valid i32"},
    {"constant", "", R"({dtype="i32", shape=[], value=0.5})", "constant: 0.5 is not a valid i32"},
    {"constant", "", R"({dtype="bool", shape=[], value=2})", "constant: a bool must be 0 or 1, got 2.0"},
    {"constant", "", R"({data="00", dtype="f32", shape=[1]})",
     "constant: data of f32[1] must have 8 hexadecimal digits, got 2"},
    {"constant", "", R"({data="0000803g", dtype="f32", shape=[1]})",
     "constant: data of f32[1] is not lower-case hexadecimal"},
    {"iota", "", R"({axis=2, dtype="f32", shape=[6, 4]})", "iota: axis 2 is not a dimension of f32[6, 4]"},
    {"random_uniform", "i64[3]", R"({dtype="f32", shape=[6], site=0})",
     "random_uniform: the state must be i64[2] (seed, step), got i64[3]"},
    {"random_uniform", "i64[2]", R"({dtype="i32", shape=[6], site=0})",
     "random_uniform: expected f32 or f64, got i32[6]; cast it first"},
    {"input", "", R"({dtype="f32", name="", shape=[6]})", "input: name must not be empty"},
    {"input", "", R"({dtype="f32", name="x", shape=[4611686018427387904, 4]})",
     "size overflows 64 bits: 4611686018427387904 x 4"},
};

TEST(Infer, MismatchedOperandsAreRejectedWithBothSizes) {
  OpTable ops = all_ops();
  for (const InvalidCase& m : invalid_cases)
    EXPECT_EQ(construction_error(ops, m.op, m.types, m.attrs), m.message) << m.op << "(" << m.types << ") " << m.attrs;
}

TEST(Infer, SizesMayBeZero) {
  OpTable ops = all_ops();
  EXPECT_EQ(results_of(single_node_graph(ops, "matmul", "f32[0, 4], f32[4, 5]", "")), "f32[0, 5]");
  EXPECT_EQ(results_of(single_node_graph(ops, "matmul", "f32[3, 0], f32[0, 5]", "")), "f32[3, 5]");
  EXPECT_EQ(results_of(single_node_graph(ops, "reduce_max", "f32[0, 4]", "{axes=[0]}")), "f32[4]");
  EXPECT_EQ(results_of(single_node_graph(ops, "concat", "f32[0, 4], f32[2, 4]", "{axis=0}")), "f32[2, 4]");
  EXPECT_EQ(results_of(single_node_graph(ops, "gather", "f32[0, 4], i32[0]", "")), "f32[0, 4]");
  EXPECT_EQ(results_of(single_node_graph(ops, "conv2d", "f32[0, 3, 6, 6], f32[4, 3, 3, 3]",
                                         "{padding=[1, 1], stride=[2, 2]}")),
            "f32[0, 4, 3, 3]");
}

TEST(Infer, OutputSizesAreThoseOfPyTorch) {
  OpTable ops = all_ops();
  // (28 + 2 * 2 - 2 * (5 - 1) - 1) / 3 + 1 = 8; (27 + 2 - 1 * (3 - 1) - 1) / 2 + 1 = 14
  EXPECT_EQ(results_of(single_node_graph(ops, "conv2d", "f32[1, 1, 28, 27], f32[2, 1, 5, 3]",
                                         "{dilation=[2, 1], padding=[2, 1], stride=[3, 2]}")),
            "f32[1, 2, 8, 14]");
}

// Half of the elements are 2 rows of [4, 3] and 3 rows of [6, 2]. A quarter is 1 row of [4, 3], but not a whole number
// of rows of [6, 2].
TEST(Shardings, AReshapeIsSplitIfTheSplitIsBetweenRowsOnBothSides) {
  const OpTable ops = all_ops();
  SingleNodeGraph node = single_node_graph(ops, "reshape", "f32[4, 3]", "{shape=[6, 2]}");
  EXPECT_NE(shardings_of(node, 2).find("S(0) -> S(0)"), std::string::npos) << shardings_of(node, 2);
  EXPECT_EQ(shardings_of(node, 4).find("S(0)"), std::string::npos) << shardings_of(node, 4);
}

}  // namespace
}  // namespace karez::ops
