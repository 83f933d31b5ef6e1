// The table of pointwise ops, and the gradient ops, linear groups and outside effects that are derived from its rows.
#include "karez/ops/pointwise.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "karez/base/text.h"

namespace karez::ops {
namespace {

// Marks a row whose function is written by hand, in karez/api/functions.h or as an operator of Tensor.
constexpr bool by_hand = true;

// A line of the table. In expressions, x, y, z are the operands, r is the result and dy its gradient. A gradient
// expression becomes an op over the names in it, in order of appearance, unless a row already has this expression: "r *
// dy" is mul(r, dy). "dy" passes the gradient unchanged, and "" means no gradient. Unless the line ends with by_hand,
// users get a function with the name and doc of the row in C++ and Python. This function converts integers to f32 if
// the op accepts only floats.
struct Line {
  const char* name;
  OperandDTypes dtypes;
  const char* expr;
  std::vector<const char*> grads;  // one per operand; for a bool result, the text of no_grad
  const char* doc;
  bool function_by_hand = false;
};

constexpr const char* to_bool = "its result is bool";

const Line lines[] = {
    {"neg", OperandDTypes::numbers, "-x", {"-dy"}, "Returns -x.", by_hand},
    {"exp", OperandDTypes::floats, "exp(x)", {"r * dy"}, "Returns e raised to the power x."},
    {"log",
     OperandDTypes::floats,
     "log(x)",
     {"dy / x"},
     "Returns the natural logarithm of x: -inf for 0, and NaN for negative x."},
    {"sqrt",
     OperandDTypes::floats,
     "sqrt(x)",
     {"dy * 0.5 / r"},
     "Returns the square root of x, and NaN for negative x."},
    {"rsqrt",
     OperandDTypes::floats,
     "rsqrt(x)",
     {"-0.5 * r * r * r * dy"},
     "Returns the reciprocal of the square root of x."},
    {"tanh", OperandDTypes::floats, "tanh(x)", {"(1 - r) * (1 + r) * dy"}, "Returns the hyperbolic tangent of x."},
    {"sigmoid",
     OperandDTypes::floats,
     "sigmoid(x)",
     {"r * (1 - r) * dy"},
     "Returns the logistic sigmoid 1 / (1 + exp(-x))."},
    {"relu",
     OperandDTypes::floats,
     "max(x, 0)",
     {"select(r <= 0, 0, dy)"},
     "Returns max(x, 0). NaN stays NaN and passes the gradient; the gradient at 0 is 0.",
     by_hand},
    // Above 40 and below -40 the normal density is 0, which must not be multiplied by infinity.
    {"gelu",
     OperandDTypes::floats,
     "max(x, -40) * phi(x)",
     {"(phi(x) + max(min(x, 40), -40) * 0.3989422804014327 * exp(-0.5 * x * x)) * dy"},
     "Returns GELU of x: x times the standard normal distribution function of x, computed with erf."},
    // (1 + tanh(u)) / 2 is sigmoid(2 u), which has no cancellation below 0.
    {"gelu_tanh",
     OperandDTypes::floats,
     "max(x, -40) * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))",
     {"(sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)) + max(min(x, 40), -40) * sigmoid(1.5957691216057308 * "
      "(x + 0.044715 * x * x * x)) * "
      "sigmoid(-1.5957691216057308 * (x + 0.044715 * x * x * x)) * 1.5957691216057308 * (1 + 0.134145 * min(x * x, "
      "1600))) * dy"},
     "Returns the tanh approximation of GELU: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2 (Hendrycks and "
     "Gimpel, 2016)."},
    {"silu",
     OperandDTypes::floats,
     "max(x, -800) * sigmoid(x)",
     {"(sigmoid(x) + max(min(x, 800), -800) * sigmoid(x) * sigmoid(-x)) * dy"},
     "Returns x * sigmoid(x), also known as swish."},
    {"erf",
     OperandDTypes::floats,
     "erf(x)",
     {"1.1283791670955126 * exp(-x * x) * dy"},
     "Returns the error function of x."},
    {"abs",
     OperandDTypes::numbers,
     "abs(x)",
     {"select(x > 0, dy, select(x < 0, -dy, 0))"},
     "Returns the absolute value of x; the gradient at 0 is 0."},
    {"sin", OperandDTypes::floats, "sin(x)", {"cos(x) * dy"}, "Returns the sine of x (x in radians)."},
    {"cos", OperandDTypes::floats, "cos(x)", {"-sin(x) * dy"}, "Returns the cosine of x (x in radians)."},
    {"stop_gradient", OperandDTypes::any, "x", {""}, "Returns x, but no gradient flows to x."},
    {"add", OperandDTypes::numbers, "x + y", {"dy", "dy"}, "Returns x + y; integers wrap around on overflow.", by_hand},
    {"sub",
     OperandDTypes::numbers,
     "x - y",
     {"dy", "-dy"},
     "Returns x - y; integers wrap around on overflow.",
     by_hand},
    {"mul",
     OperandDTypes::numbers,
     "x * y",
     {"dy * y", "x * dy"},
     "Returns x * y; integers wrap around on overflow.",
     by_hand},
    {"div",
     OperandDTypes::numbers,
     "x / y",
     {"dy / y", "-dy * r / y"},
     "Returns x / y. Integer division rounds toward zero; a zero divisor makes the launch fail.",
     by_hand},
    {"pow",
     OperandDTypes::floats,
     "pow(x, y)",
     {"select(y == 0, 0, y * pow(x, y - 1)) * dy", "select(x == 0, 0, log(x) * r) * dy"},
     "Returns x raised to the power y. The gradient of y is 0 if x is 0, and the gradient of x is 0 if y is 0.",
     by_hand},
    // Equal operands share the gradient, so that it does not depend on their order.
    {"max",
     OperandDTypes::numbers,
     "max(x, y)",
     {"select(x < y, 0, select(x == y, 0.5 * dy, dy))", "select(y < x, 0, select(y == x, 0.5 * dy, dy))"},
     "Returns the larger of x and y, or NaN if either is NaN; +0 is greater than -0. Each of two equal operands gets "
     "half of the gradient; if either is NaN, both get the full gradient.",
     by_hand},
    {"min",
     OperandDTypes::numbers,
     "min(x, y)",
     {"select(x > y, 0, select(x == y, 0.5 * dy, dy))", "select(y > x, 0, select(y == x, 0.5 * dy, dy))"},
     "Returns the smaller of x and y, or NaN if either is NaN; -0 is less than +0. Each of two equal operands gets "
     "half of the gradient; if either is NaN, both get the full gradient.",
     by_hand},
    {"eq", OperandDTypes::any, "x == y", {to_bool}, "Returns whether x equals y.", by_hand},
    {"ne", OperandDTypes::any, "x != y", {to_bool}, "Returns whether x differs from y.", by_hand},
    {"lt", OperandDTypes::numbers, "x < y", {to_bool}, "Returns whether x is less than y.", by_hand},
    {"le", OperandDTypes::numbers, "x <= y", {to_bool}, "Returns whether x is less than or equal to y.", by_hand},
    {"gt", OperandDTypes::numbers, "x > y", {to_bool}, "Returns whether x is greater than y.", by_hand},
    {"ge", OperandDTypes::numbers, "x >= y", {to_bool}, "Returns whether x is greater than or equal to y.", by_hand},
    {"and", OperandDTypes::bools, "x && y", {to_bool}, "Returns the logical and of x and y.", by_hand},
    {"or", OperandDTypes::bools, "x || y", {to_bool}, "Returns the logical or of x and y.", by_hand},
    {"not", OperandDTypes::bools, "!x", {to_bool}, "Returns the logical not of x.", by_hand},
    {"select",
     OperandDTypes::any,
     "select(x, y, z)",
     {"", "select(x, dy, 0)", "select(x, 0, dy)"},
     "Returns y where the bool x is true, otherwise z.",
     by_hand},
};

// Rewrites "r * dy" to "x0 * x1" and appends new names, here "r" and "dy", to `names`.
std::string canonical(std::string_view text, std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '.')) ++end;
    if (end == i) {
      out += text[i++];
      continue;
    }
    std::string word(text.substr(i, end - i));
    i = end;
    if (word != "x" && word != "y" && word != "z" && word != "r" && word != "dy") {
      out += word;
      continue;
    }
    auto position = std::find(names.begin(), names.end(), word);
    out += cat("x", position - names.begin());
    if (position == names.end()) names.push_back(word);
  }
  return print(parse_expr(out));
}

bool has_positive_operands(const Expr& e) {
  if (e->kind == ExprKind::log || e->kind == ExprKind::sqrt || e->kind == ExprKind::rsqrt || e->kind == ExprKind::pow)
    return true;
  for (int k = 0; k < operands_of(e->kind); ++k)
    if (has_positive_operands(e->operands[static_cast<std::size_t>(k)])) return true;
  return false;
}

// Marks the variables of the expression that are used as bools.
void find_bool_operands(const Expr& e, std::bitset<base::max_variables>& is_bool) {
  for (int k = 0; k < operands_of(e->kind); ++k) {
    const Expr& operand = e->operands[static_cast<std::size_t>(k)];
    bool is_condition = e->kind == ExprKind::not_ || e->kind == ExprKind::and_ || e->kind == ExprKind::or_ ||
                        (e->kind == ExprKind::select && k == 0);
    if (is_condition && operand->kind == ExprKind::variable)
      is_bool[static_cast<std::size_t>(operand->variable)] = true;
    find_bool_operands(operand, is_bool);
  }
}

std::vector<Pointwise> build_rows() {
  std::vector<Pointwise> rows;
  std::vector<std::string> forward;  // canonical expressions of the lines, to find gradients that equal a line
  for (const Line& line : lines) forward.push_back(print(parse_expr(line.expr)));

  for (std::size_t i = 0; i < std::size(lines); ++i) {
    const Line& line = lines[i];
    Expr expr = parse_expr(line.expr);
    Pointwise row{.name = line.name,
                  .expr = forward[i],
                  .operands = variable_count(expr),
                  .dtypes = line.dtypes,
                  .returns_bool = is_boolean(expr->kind),
                  .doc = line.doc,
                  .has_function = !line.function_by_hand,
                  .positive = has_positive_operands(expr)};
    std::vector<Pointwise> gradient_rows;
    if (row.returns_bool) {
      row.no_grad = line.grads[0];
      rows.push_back(row);
      continue;
    }
    for (const char* text : line.grads) {
      PointwiseGradient grad;
      if (std::string_view(text) == "dy") {
        grad = {"=", {"dy"}};
      } else if (*text != 0) {
        std::string key = canonical(text, grad.operands);
        auto equal_row = std::find(forward.begin(), forward.end(), key);
        auto gradient_row =
            std::find_if(gradient_rows.begin(), gradient_rows.end(), [&](const Pointwise& p) { return p.expr == key; });
        if (equal_row != forward.end()) {
          grad.op = lines[equal_row - forward.begin()].name;
        } else if (gradient_row != gradient_rows.end()) {
          grad.op = gradient_row->name;
        } else {
          grad.op = cat(line.name, gradient_rows.empty() ? "_grad" : "_grad2");
          gradient_rows.push_back({.name = grad.op,
                                   .expr = key,
                                   .operands = static_cast<int>(grad.operands.size()),
                                   .doc = cat("Computes the gradient of ", line.name, " from (",
                                              join(grad.operands, ", "), "): ", text, "."),
                                   .positive = row.positive});
        }
      }
      row.grads.push_back(grad);
    }
    rows.push_back(row);
    rows.insert(rows.end(), gradient_rows.begin(), gradient_rows.end());
  }
  return rows;
}

// How an expression depends on a set of variables: it is zero, it is constant, it is linear in them, or this is
// unknown.
enum class Linearity { zero, constant, linear, unknown };

Linearity linearity_in(const Expr& e, const std::vector<int>& group) {
  if (e->kind == ExprKind::constant) return e->value == 0 ? Linearity::zero : Linearity::constant;
  if (e->kind == ExprKind::variable)
    return std::find(group.begin(), group.end(), e->variable) != group.end() ? Linearity::linear : Linearity::constant;
  Linearity f[3] = {Linearity::zero, Linearity::zero, Linearity::zero};
  int n = operands_of(e->kind);
  bool all_constant = true;
  for (int i = 0; i < n; ++i) {
    f[i] = linearity_in(e->operands[static_cast<std::size_t>(i)], group);
    all_constant = all_constant && (f[i] == Linearity::zero || f[i] == Linearity::constant);
  }
  auto both_linear = [](Linearity a, Linearity b) {
    bool are_linear =
        (a == Linearity::linear || a == Linearity::zero) && (b == Linearity::linear || b == Linearity::zero);
    return are_linear ? Linearity::linear : Linearity::unknown;
  };
  if (all_constant) return Linearity::constant;
  // A literal infinity turns a partial value of 0 into NaN.
  if (e->kind == ExprKind::mul || e->kind == ExprKind::div)
    for (const Expr& operand : e->operands)
      if (operand && operand->kind == ExprKind::constant && !std::isfinite(operand->value)) return Linearity::unknown;
  switch (e->kind) {
    case ExprKind::neg: return f[0];
    case ExprKind::add:
    case ExprKind::sub: return both_linear(f[0], f[1]);
    case ExprKind::mul:
      return f[0] == Linearity::constant || f[1] == Linearity::constant ? (f[0] == Linearity::constant ? f[1] : f[0])
                                                                        : Linearity::unknown;
    case ExprKind::div: return f[1] == Linearity::constant ? f[0] : Linearity::unknown;
    case ExprKind::select:
      return f[0] == Linearity::constant || f[0] == Linearity::zero ? both_linear(f[1], f[2]) : Linearity::unknown;
    default: return Linearity::unknown;
  }
}

using OutsideEffect = Signature::OutsideEffect;

// Ranks effects from harmless to worst, independently of the order of the enum.
int rank_of(OutsideEffect outside) {
  switch (outside) {
    case OutsideEffect::condition: return 0;
    case OutsideEffect::factor: return 1;
    case OutsideEffect::divisor: return 2;
    case OutsideEffect::unknown: return 3;
  }
  return 3;
}

// Records the effect of every variable in the subexpression `e`; `effect` is the effect of `e` itself.
void find_outside_effects(const Expr& e, OutsideEffect effect, std::map<int, OutsideEffect>& effects) {
  if (e->kind == ExprKind::variable) {
    auto [known, inserted] = effects.try_emplace(e->variable, effect);
    if (!inserted && rank_of(known->second) < rank_of(effect)) known->second = effect;
    return;
  }
  for (int k = 0; k < operands_of(e->kind); ++k) {
    const Expr& operand = e->operands[static_cast<std::size_t>(k)];
    OutsideEffect inner_effect = OutsideEffect::unknown;
    if (effect == OutsideEffect::condition || is_boolean(e->kind) || (e->kind == ExprKind::select && k == 0)) {
      inner_effect = OutsideEffect::condition;
    } else if (effect == OutsideEffect::factor) {
      switch (e->kind) {
        case ExprKind::neg:
        case ExprKind::add:
        case ExprKind::sub:
        case ExprKind::mul:
        case ExprKind::select: inner_effect = OutsideEffect::factor; break;
        case ExprKind::div:
          inner_effect = k == 0                                ? OutsideEffect::factor
                         : operand->kind == ExprKind::variable ? OutsideEffect::divisor
                                                               : OutsideEffect::unknown;
          break;
        default: break;
      }
    }
    find_outside_effects(operand, inner_effect, effects);
  }
}

}  // namespace

std::map<int, OutsideEffect> outside_effects(const Expr& expr) {
  std::map<int, OutsideEffect> effects;
  find_outside_effects(expr, OutsideEffect::factor, effects);
  std::erase_if(effects, [](const auto& entry) { return entry.second == OutsideEffect::factor; });
  return effects;
}

std::string_view name_of(OperandDTypes dtypes) {
  constexpr std::string_view names[] = {"f32 or f64", "numbers", "bool", "any dtype"};
  return names[static_cast<int>(dtypes)];
}

std::bitset<base::max_variables> bool_operands(const Expr& expr) {
  std::bitset<base::max_variables> is_bool;
  find_bool_operands(expr, is_bool);
  return is_bool;
}

const std::vector<Pointwise>& pointwise_rows() {
  static const std::vector<Pointwise> rows = build_rows();
  return rows;
}

const Pointwise* pointwise_row(std::string_view name) {
  for (const Pointwise& row : pointwise_rows())
    if (row.name == name) return &row;
  return nullptr;
}

std::vector<std::vector<int>> linear_groups(const Expr& expr) {
  int n = variable_count(expr);
  std::vector<std::vector<int>> groups;
  if (n > 6) return groups;  // searching the subsets of long fused chains is not worth the time
  std::vector<unsigned> masks;
  for (unsigned mask = 1; mask < (1u << n); ++mask) masks.push_back(mask);
  std::stable_sort(masks.begin(), masks.end(),
                   [](unsigned a, unsigned b) { return __builtin_popcount(a) > __builtin_popcount(b); });
  for (unsigned mask : masks) {
    std::vector<int> group;
    for (int i = 0; i < n; ++i)
      if (mask >> i & 1) group.push_back(i);
    bool inside = std::any_of(groups.begin(), groups.end(), [&](const auto& g) {
      return std::includes(g.begin(), g.end(), group.begin(), group.end());
    });
    if (!inside && linearity_in(expr, group) == Linearity::linear) groups.push_back(group);
  }
  return groups;
}

}  // namespace karez::ops
