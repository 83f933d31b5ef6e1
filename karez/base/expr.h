// Scalar expressions over x0, x1, ...: parse, print, evaluate, derive, substitute and flatten to a register program.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "karez/base/error.h"
#include "karez/base/ieee_min_max.h"

namespace karez::base {

enum class ExprKind : std::uint8_t {
  constant,
  variable,  // last kind without operands
  neg,
  not_,
  exp,
  log,
  sqrt,
  rsqrt,
  tanh,
  sigmoid,
  erf,
  phi,  // the normal distribution function (1 + erf(x / sqrt(2))) / 2, computed without cancellation below 0
  abs,
  sin,
  cos,  // last kind with one operand
  add,
  sub,
  mul,
  div,
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  and_,
  or_,
  pow,
  max,
  min,
  fmod,  // the exact remainder of a / b, with the sign of a
  bit_and,
  bit_or,
  bit_xor,  // last kind with two operands; the three bit operations accept integers only
  select,   // select(c, a, b): a if c is not zero, otherwise b
};
std::string_view name_of(ExprKind kind);  // as printed: "+", "max", "&&"; "constant", "variable"
int operands_of(ExprKind kind);           // 0 to 3
constexpr bool is_bitwise(ExprKind kind) { return kind >= ExprKind::bit_and && kind <= ExprKind::bit_xor; }
// True for comparisons, &&, || and !, whose value is 0 or 1.
constexpr bool is_boolean(ExprKind kind) {
  return kind == ExprKind::not_ || (kind >= ExprKind::lt && kind <= ExprKind::or_);
}

// An immutable tree; equal subtrees may be shared.
struct ExprNode;
using Expr = std::shared_ptr<const ExprNode>;
struct ExprNode {
  ExprKind kind = ExprKind::constant;
  double value = 0;   // if a constant
  int variable = 0;   // if a variable
  int depth = 1;      // bounded, so that recursion is safe
  int variables = 0;  // the highest index used in the tree plus one
  std::array<Expr, 3> operands;
};
Expr expr_constant(double value);
inline constexpr int max_variables = 64;
Expr expr_variable(int index);  // below max_variables
Expr expr_of(ExprKind kind, Expr a, Expr b = nullptr, Expr c = nullptr);

// Grammar, weakest operators first: || ; && ; == != ; < <= > >= ; + - ; * / ; unary - ! ; numbers, inf, nan, x0 to x63
// (x, y, z are x0, x1, x2), functions, parentheses. Errors give line and column.
Expr parse_expr(std::string_view text);
// Canonical text with the fewest parentheses; parses to the same tree: "max(x0, 0)", "x0 * (x1 + 1)".
std::string print(const Expr& expr);
bool same(const Expr& a, const Expr& b);
inline int variable_count(const Expr& expr) { return expr->variables; }

// Returns d expr / d x_variable, slightly simplified (factors and terms 0 and 1, constants). Comparisons have
// derivative 0; max(a, b) has the derivative of a if a >= b, otherwise that of b; abs has derivative 0 at 0.
Expr derive(const Expr& expr, int variable);
// Replaces every variable x_i by with[i]. A missing or null entry is an error.
Expr substitute(const Expr& expr, std::span<const Expr> with);

// A sequence of operations on numbered registers. The first `variables` registers are x0, x1, ..., followed by the
// constants. Operations never write these registers, so an interpreter that works on blocks of elements may use its
// inputs, and blocks that it fills once, as registers. Equal subtrees are computed once. A temporary is reused after
// its last use, and an operation may write a register that it reads.
struct ExprOp {
  ExprKind op = ExprKind::constant;
  int a = -1, b = -1, c = -1;  // registers; -1 for absent operands
  int dst = -1;
  bool operator==(const ExprOp&) const = default;
};
struct ExprProgram {
  int variables = 0;
  std::vector<double> constants;
  std::vector<ExprOp> ops;
  int registers = 0;  // variables + constants + temporaries
  int result = 0;     // a variable or constant if there are no operations
};
ExprProgram flatten(const Expr& expr);

// Computes one operation on elements of T: float, double, int32 or int64. Integers wrap around on overflow. Dividing an
// integer by zero, raising it to a negative power, and applying a function that is not defined for integers are errors.
// max and min are ieee_maximum and ieee_minimum of karez/base/ieee_min_max.h. Every kernel must reproduce these
// results.
template <class T> T apply(ExprKind op, T a, T b = 0, T c = 0) {
  constexpr bool real = std::is_floating_point_v<T>;
  using Wrapping = typename std::conditional_t<real, std::type_identity<T>, std::make_unsigned<T>>::type;
  auto wrap = [](T v) { return static_cast<Wrapping>(v); };
  switch (op) {
    case ExprKind::constant:
    case ExprKind::variable: return a;
    case ExprKind::neg: return real ? -a : static_cast<T>(Wrapping{0} - wrap(a));
    case ExprKind::not_: return a == 0;
    case ExprKind::abs:
      if constexpr (real) return std::abs(a);
      return a < 0 ? static_cast<T>(Wrapping{0} - wrap(a)) : a;
    case ExprKind::add: return static_cast<T>(wrap(a) + wrap(b));
    case ExprKind::sub: return static_cast<T>(wrap(a) - wrap(b));
    case ExprKind::mul: return static_cast<T>(wrap(a) * wrap(b));
    case ExprKind::div:
      if constexpr (!real) {
        require(b != 0, "an integer is divided by zero: ", a, " / ", b);
        if (b == -1) return static_cast<T>(Wrapping{0} - wrap(a));
      }
      return a / b;
    case ExprKind::lt: return a < b;
    case ExprKind::le: return a <= b;
    case ExprKind::gt: return a > b;
    case ExprKind::ge: return a >= b;
    case ExprKind::eq: return a == b;
    case ExprKind::ne: return a != b;
    case ExprKind::and_: return a != 0 && b != 0;
    case ExprKind::or_: return a != 0 || b != 0;
    case ExprKind::max: return ieee_maximum(a, b);
    case ExprKind::min: return ieee_minimum(a, b);
    case ExprKind::fmod:
      if constexpr (real) return std::fmod(a, b);
      else {
        require(b != 0, "an integer is divided by zero: fmod(", a, ", ", b, ")");
        return b == -1 ? T{0} : static_cast<T>(a % b);
      }
    case ExprKind::select: return a != 0 ? b : c;
    default: break;
  }
  if constexpr (real) {
    switch (op) {
      case ExprKind::exp: return std::exp(a);
      case ExprKind::log: return std::log(a);
      case ExprKind::sqrt: return std::sqrt(a);
      case ExprKind::rsqrt: return 1 / std::sqrt(a);
      case ExprKind::tanh: return std::tanh(a);
      case ExprKind::sigmoid: {  // the exponent is never positive, so exp does not overflow
        const T e = std::exp(-std::abs(a));
        return a < 0 ? e / (1 + e) : 1 / (1 + e);
      }
      case ExprKind::erf: return std::erf(a);
      case ExprKind::phi: return std::erfc(a * static_cast<T>(-0.7071067811865476)) / 2;
      case ExprKind::sin: return std::sin(a);
      case ExprKind::cos: return std::cos(a);
      case ExprKind::pow: return std::pow(a, b);
      default: break;
    }
    fail("'", name_of(op), "' is not defined for floats");
  } else if (op == ExprKind::pow) {
    require(b >= 0, "an integer is raised to a negative power: pow(", a, ", ", b, ")");
    Wrapping out = 1, square = wrap(a);
    for (Wrapping left = wrap(b); left != 0; left >>= 1, square *= square)
      if (left & 1) out *= square;
    return static_cast<T>(out);
  } else if (op == ExprKind::bit_and || op == ExprKind::bit_or || op == ExprKind::bit_xor) {
    return op == ExprKind::bit_and ? a & b : op == ExprKind::bit_or ? a | b : a ^ b;
  }
  fail("'", name_of(op), "' is not defined for integers");
}

// Converts a constant to T; a value that an integer type cannot represent is an error.
template <class T> T constant_as(double value) {
  if constexpr (!std::is_floating_point_v<T>) {
    constexpr double bound = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;  // 2^8, 2^31 or 2^63
    require(value == std::trunc(value) && value >= -bound && value < bound, "the constant ", value, " is not a ",
            sizeof(T) * 8, "-bit integer");
    return static_cast<T>(static_cast<std::int64_t>(value));  // negative constants of unsigned types wrap around
  }
  return static_cast<T>(value);
}

// Returns the value of the expression for x_i = values[i]. Both branches of a select are computed.
template <class T> T evaluate(const ExprProgram& program, std::span<const T> values) {
  require(static_cast<int>(values.size()) >= program.variables, "an expression over ", program.variables,
          " variables needs a value for each, got ", values.size());
  std::vector<T> registers(static_cast<std::size_t>(program.registers));
  std::size_t next = 0;
  for (int i = 0; i < program.variables; ++i) registers[next++] = values[static_cast<std::size_t>(i)];
  for (double value : program.constants) registers[next++] = constant_as<T>(value);
  auto read = [&](int r) { return r < 0 ? T{} : registers[static_cast<std::size_t>(r)]; };
  for (const ExprOp& op : program.ops)
    registers[static_cast<std::size_t>(op.dst)] = apply<T>(op.op, read(op.a), read(op.b), read(op.c));
  return read(program.result);
}
template <class T> T evaluate(const Expr& expr, std::span<const T> values) {
  return evaluate<T>(flatten(expr), values);
}

}  // namespace karez::base
