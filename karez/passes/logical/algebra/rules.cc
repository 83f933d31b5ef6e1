// The table of algebraic rules. Rules for the whole graph run first; then the first rule that matches is applied to
// each node.
#include "karez/passes/logical/algebra/rules.h"

namespace karez::passes {
namespace {

constexpr AlgebraRule rules[] = {
    {"pool_before_relu", "max_pool(relu(x)) -> relu(max_pool(x)), and their gradients", nullptr, pool_before_relu},
    {"stop_gradient", "stop_gradient(x) -> x", stop_gradient},
    {"same_type", "reshape, broadcast, slice or pad of x to the type of x -> x", same_type},
    {"same_order", "transpose(x) that keeps the order -> x", same_order},
    {"one_part", "concat(x) -> x", one_part},
    {"add_zero", "x + -0, -0 + x, x - 0 -> x; for integers, any zero", add_zero},
    {"multiply_by_one", "x * 1, 1 * x, x / 1 -> x", multiply_by_one},
    {"double_negation", "-(-x) -> x", double_negation},
    {"pooled_gradient_sum", "sum over pixels of max_pool_grad(dy) -> sum over pixels of dy", pooled_gradient_sum,
     nullptr, true},
};

}  // namespace

std::span<const AlgebraRule> algebra_rules() { return rules; }

}  // namespace karez::passes
