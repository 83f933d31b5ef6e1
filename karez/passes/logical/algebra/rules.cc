// The table of algebraic rules. Rules for the whole graph run first; then the first rule that matches is applied to
// each node.
#include "karez/passes/logical/algebra/rules.h"

namespace karez::passes {
namespace {

constexpr AlgebraRule rules[] = {
    {"pool_before_relu", "max_pool(relu(x)) -> relu(max_pool(x)), and their gradients", nullptr, pool_before_relu},
    {"cast_of_one_hot", "cast(one_hot(i)) -> one_hot(i) of another dtype", nullptr, cast_of_one_hot},
    {"stop_gradient", "stop_gradient(x) -> x", stop_gradient},
    {"same_type", "reshape, broadcast, slice or pad of x to the type of x -> x", same_type},
    {"same_order", "transpose(x) that keeps the order -> x", same_order},
    {"one_part", "concat(x) -> x", one_part},
    {"add_zero", "x + -0, -0 + x, x - 0 -> x; for integers, any zero", add_zero},
    {"multiply_by_one", "x * 1, 1 * x, x / 1 -> x", multiply_by_one},
    {"double_negation", "-(-x) -> x", double_negation},
    {"transpose_of_transpose", "transpose(transpose(x)) -> transpose(x)", transpose_of_transpose},
    {"reshape_of_reshape", "reshape(reshape(x)) -> reshape(x)", reshape_of_reshape},
    {"slice_of_concat", "slice of concat(x, y), if it is within x -> slice(x)", slice_of_concat},
    {"cast_of_cast", "cast(cast(x)) -> cast(x) or x, if the inner cast keeps every number", cast_of_cast},
    {"transposed_factor", "matmul(transpose(x), y) -> matmul(x, y) with transpose_a, and for y", transposed_factor},
    {"pooled_gradient_sum", "sum over pixels of max_pool_grad(dy) -> sum over pixels of dy", pooled_gradient_sum,
     nullptr, true},
};

}  // namespace

std::span<const AlgebraRule> algebra_rules() { return rules; }

}  // namespace karez::passes
