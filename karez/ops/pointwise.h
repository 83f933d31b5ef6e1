// The table of pointwise ops: a row is a scalar expression; gradient ops, linear groups, kernels and jit code all come
// from it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/expr.h"
#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

enum class OperandDTypes {
  floats,
  numbers,
  bools,
  any
};  // dtypes of the operands (a select's condition is always bool)
std::string_view name_of(OperandDTypes dtypes);

// The gradient of one operand: one op of this table, applied to values of the forward node.
struct PointwiseGradient {
  std::string op;                     // "mul", "tanh_grad"; "" for no gradient; "=" if dy itself is the gradient
  std::vector<std::string> operands;  // "x", "y", "z" (operands), "r" (the result), "dy"
  bool operator==(const PointwiseGradient&) const = default;
};

struct Pointwise {
  std::string name;
  std::string expr;  // canonical, over x0, x1, x2
  int operands = 1;
  OperandDTypes dtypes = OperandDTypes::floats;
  bool returns_bool = false;
  std::vector<PointwiseGradient> grads;  // one per operand; empty for gradient ops, which are differentiated
                                         // symbolically, and if there is a `no_grad`
  std::string no_grad;
  std::string doc;
};

// All rows in the order of the table, each gradient op after its row. Constant data, built at first use.
const std::vector<Pointwise>& pointwise_rows();
const Pointwise* pointwise_row(std::string_view name);  // null: no such pointwise op

// The sets of variables in which an expression is linear (additive and homogeneous, the others fixed): "x0 - x1": {0,
// 1}; "x0 * x1": {0}, {1}. Partial sums may pass through those operands together. Proved from the form alone: a set
// that cannot be proved is omitted.
std::vector<std::vector<int>> linear_groups(const Expr& expr);

// The effect of each operand on the others, if it is not a factor: in "x0 / x1", operand 1 is a divisor.
std::map<int, graph::Signature::OutsideEffect> outside_effects(const Expr& expr);

}  // namespace karez::ops
