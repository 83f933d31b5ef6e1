// The table of pointwise ops. A row is a scalar expression, from which gradient ops, linear groups, kernels and jit
// code are derived.
#pragma once

#include <bitset>
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
};  // dtypes of the operands (the condition of a select is always bool)
std::string_view name_of(OperandDTypes dtypes);

// The gradient of an operand: an op of this table, applied to values of the forward node.
struct PointwiseGradient {
  std::string op;                     // "mul", "tanh_grad"; "" for no gradient; "=" if dy is the gradient
  std::vector<std::string> operands;  // "x", "y", "z" (operands), "r" (the result), "dy"
  bool operator==(const PointwiseGradient&) const = default;
};

struct Pointwise {
  std::string name;
  std::string expr;  // canonical, over x0, x1, x2
  int operands = 1;
  OperandDTypes dtypes = OperandDTypes::floats;
  bool returns_bool = false;
  std::vector<PointwiseGradient> grads = {};  // one per operand; empty if there is a `no_grad`, and for gradient ops,
                                              // which are differentiated symbolically
  std::string no_grad = {};
  std::string doc;
  bool has_function = false;  // users get a function of this name, which is generated from the row
  bool positive = false;  // this row, or the row of which it is the gradient, has a log, sqrt, rsqrt or pow, so tests
                          // use operands > 0
};

// Returns all rows in the order of the table; the gradient ops of a row follow it. The rows are built at the first
// call.
const std::vector<Pointwise>& pointwise_rows();
const Pointwise* pointwise_row(std::string_view name);  // null if there is no such row

// Returns for each variable whether it is used as a bool: as the condition of a select, or an operand of &&, || or !.
std::bitset<base::max_variables> bool_operands(const Expr& expr);

// Returns the sets of variables in which an expression is linear (additive and homogeneous, with the others fixed): {0,
// 1} for "x0 - x1", and {0}, {1} for "x0 * x1". Partial sums may pass through the operands of a set together. Sets are
// derived from the form of the expression; a set whose linearity cannot be proved is omitted.
std::vector<std::vector<int>> linear_groups(const Expr& expr);

// Returns the effect of each operand that is not a factor: in "x0 / x1", operand 1 is a divisor.
std::map<int, graph::Signature::OutsideEffect> outside_effects(const Expr& expr);

}  // namespace karez::ops
