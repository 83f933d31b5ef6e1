// The table of pointwise ops, with the gradient ops, linear groups and outside effects derived from its rows.
#include "karez/ops/pointwise.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "karez/base/text.h"

namespace karez::ops {
namespace {

// One line of the table. Expressions: x, y, z are the operands, r the result, dy the gradient of the result; a gradient
// expression becomes an op of its own over the names in it, in order of appearance, unless a row already has that
// expression: "r * dy" is mul(r, dy). "dy" alone passes the gradient through; "" means none.
struct Line {
  const char* name;
  OperandDTypes dtypes;
  const char* expr;
  std::vector<const char*> grads;  // per operand; if the result is bool, the reason for no_grad
  const char* doc;
};

constexpr const char* to_bool = "its result is bool";

const Line lines[] = {
    {"neg", OperandDTypes::numbers, "-x", {"-dy"}, "Minus x."},
    {"exp", OperandDTypes::floats, "exp(x)", {"r * dy"}, "e to the power x."},
    {"log", OperandDTypes::floats, "log(x)", {"dy / x"}, "Natural logarithm of x; -inf at 0, NaN below."},
    {"sqrt", OperandDTypes::floats, "sqrt(x)", {"dy * 0.5 / r"}, "Square root of x; NaN below 0."},
    {"rsqrt", OperandDTypes::floats, "rsqrt(x)", {"-0.5 * r * r * r * dy"}, "One over the square root of x."},
    {"tanh", OperandDTypes::floats, "tanh(x)", {"(1 - r * r) * dy"}, "Hyperbolic tangent of x."},
    {"sigmoid", OperandDTypes::floats, "sigmoid(x)", {"r * (1 - r) * dy"}, "1 / (1 + exp(-x))."},
    {"relu",
     OperandDTypes::floats,
     "max(x, 0)",
     {"select(r <= 0, 0, dy)"},
     "The larger of x and 0; NaN stays NaN and passes the gradient; the gradient at 0 is 0."},
    // Beyond 40 and -40 the normal density is 0, which must not be multiplied by infinity.
    {"gelu",
     OperandDTypes::floats,
     "max(x, -40) * phi(x)",
     {"(phi(x) + max(min(x, 40), -40) * 0.3989422804014327 * exp(-0.5 * x * x)) * dy"},
     "x times the probability that a standard normal number is below x (the erf form)."},
    // (1 + tanh(u)) / 2 is sigmoid(2 u), which has no cancellation below 0.
    {"gelu_tanh",
     OperandDTypes::floats,
     "max(x, -40) * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))",
     {"(sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)) + max(min(x, 40), -40) * sigmoid(1.5957691216057308 * "
      "(x + 0.044715 * x * x * x)) * "
      "sigmoid(-1.5957691216057308 * (x + 0.044715 * x * x * x)) * 1.5957691216057308 * (1 + 0.134145 * min(x * x, "
      "1600))) * dy"},
     "GELU by a tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2; Hendrycks and Gimpel, 2016."},
    {"silu",
     OperandDTypes::floats,
     "max(x, -800) * sigmoid(x)",
     {"(sigmoid(x) + max(min(x, 800), -800) * sigmoid(x) * sigmoid(-x)) * dy"},
     "x sigmoid(x), also called swish."},
    {"erf", OperandDTypes::floats, "erf(x)", {"1.1283791670955126 * exp(-x * x) * dy"}, "The error function of x."},
    {"abs",
     OperandDTypes::numbers,
     "abs(x)",
     {"select(x > 0, dy, select(x < 0, -dy, 0))"},
     "x without its sign; the gradient at 0 is 0."},
    {"sin", OperandDTypes::floats, "sin(x)", {"cos(x) * dy"}, "Sine of x (radians)."},
    {"cos", OperandDTypes::floats, "cos(x)", {"-sin(x) * dy"}, "Cosine of x (radians)."},
    {"stop_gradient", OperandDTypes::any, "x", {""}, "x itself, without a gradient."},
    {"add", OperandDTypes::numbers, "x + y", {"dy", "dy"}, "x plus y; integers wrap."},
    {"sub", OperandDTypes::numbers, "x - y", {"dy", "-dy"}, "x minus y; integers wrap."},
    {"mul", OperandDTypes::numbers, "x * y", {"dy * y", "x * dy"}, "x times y; integers wrap."},
    {"div",
     OperandDTypes::numbers,
     "x / y",
     {"dy / y", "-dy * r / y"},
     "x over y; integers round toward zero, and their division by zero is an error."},
    {"pow",
     OperandDTypes::floats,
     "pow(x, y)",
     {"select(y == 0, 0, y * pow(x, y - 1)) * dy", "select(x == 0, 0, log(x) * r) * dy"},
     "x to the power y; the gradient in y is 0 if x is 0, that in x is 0 if y is 0."},
    // Equal operands share the gradient, so that it is independent of their order.
    {"max",
     OperandDTypes::numbers,
     "max(x, y)",
     {"select(x < y, 0, select(x == y, 0.5 * dy, dy))", "select(y < x, 0, select(y == x, 0.5 * dy, dy))"},
     "The larger of x and y; NaN if one is NaN; +0 is above -0. Equal operands each get half of the gradient; if one "
     "is NaN, both get all of it."},
    {"min",
     OperandDTypes::numbers,
     "min(x, y)",
     {"select(x > y, 0, select(x == y, 0.5 * dy, dy))", "select(y > x, 0, select(y == x, 0.5 * dy, dy))"},
     "The smaller of x and y; NaN if one is NaN; -0 is below +0. Equal operands each get half of the gradient; if one "
     "is NaN, both get all of it."},
    {"eq", OperandDTypes::any, "x == y", {to_bool}, "Whether x equals y."},
    {"ne", OperandDTypes::any, "x != y", {to_bool}, "Whether x differs from y."},
    {"lt", OperandDTypes::numbers, "x < y", {to_bool}, "Whether x is below y."},
    {"le", OperandDTypes::numbers, "x <= y", {to_bool}, "Whether x is at most y."},
    {"gt", OperandDTypes::numbers, "x > y", {to_bool}, "Whether x is above y."},
    {"ge", OperandDTypes::numbers, "x >= y", {to_bool}, "Whether x is at least y."},
    {"and", OperandDTypes::bools, "x && y", {to_bool}, "Whether both are true."},
    {"or", OperandDTypes::bools, "x || y", {to_bool}, "Whether x or y is true."},
    {"not", OperandDTypes::bools, "!x", {to_bool}, "Whether x is false."},
    {"select",
     OperandDTypes::any,
     "select(x, y, z)",
     {"", "select(x, dy, 0)", "select(x, 0, dy)"},
     "y if the bool x is true, otherwise z."},
};

// "r * dy" with names {"r", "dy"} becomes "x0 * x1".
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
    auto at = std::find(names.begin(), names.end(), word);
    out += cat("x", at - names.begin());
    if (at == names.end()) names.push_back(word);
  }
  return print(parse_expr(out));
}

std::vector<Pointwise> build_rows() {
  std::vector<Pointwise> rows;
  std::vector<std::string> forward;  // canonical expressions of the lines, to find gradients that equal one
  for (const Line& line : lines) forward.push_back(print(parse_expr(line.expr)));

  for (std::size_t i = 0; i < std::size(lines); ++i) {
    const Line& line = lines[i];
    Expr expr = parse_expr(line.expr);
    Pointwise row{line.name, forward[i], variable_count(expr), line.dtypes, is_boolean(expr->kind), {}, "", line.doc};
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
        auto known = std::find(forward.begin(), forward.end(), key);
        auto mine =
            std::find_if(gradient_rows.begin(), gradient_rows.end(), [&](const Pointwise& p) { return p.expr == key; });
        if (known != forward.end()) {
          grad.op = lines[known - forward.begin()].name;
        } else if (mine != gradient_rows.end()) {
          grad.op = mine->name;
        } else {
          grad.op = cat(line.name, gradient_rows.empty() ? "_grad" : "_grad2");
          gradient_rows.push_back(
              {grad.op,
               key,
               static_cast<int>(grad.operands.size()),
               OperandDTypes::floats,
               false,
               {},
               "",
               cat("Gradient of ", line.name, " from (", join(grad.operands, ", "), "): ", text, ".")});
        }
      }
      row.grads.push_back(grad);
    }
    rows.push_back(row);
    rows.insert(rows.end(), gradient_rows.begin(), gradient_rows.end());
  }
  return rows;
}

// The dependence of an expression on a set of variables: exactly zero, free of them, linear in them, or unknown.
enum class Linearity { zero, constant, linear, unknown };

Linearity linearity_in(const Expr& e, const std::vector<int>& group) {
  if (e->kind == ExprKind::constant) return e->value == 0 ? Linearity::zero : Linearity::constant;
  if (e->kind == ExprKind::variable)
    return std::find(group.begin(), group.end(), e->variable) != group.end() ? Linearity::linear : Linearity::constant;
  Linearity f[3] = {Linearity::zero, Linearity::zero, Linearity::zero};
  int n = operands_of(e->kind);
  bool all_free = true;
  for (int i = 0; i < n; ++i) {
    f[i] = linearity_in(e->operands[static_cast<std::size_t>(i)], group);
    all_free = all_free && (f[i] == Linearity::zero || f[i] == Linearity::constant);
  }
  auto both_linear = [](Linearity a, Linearity b) {
    bool fine = (a == Linearity::linear || a == Linearity::zero) && (b == Linearity::linear || b == Linearity::zero);
    return fine ? Linearity::linear : Linearity::unknown;
  };
  if (all_free) return Linearity::constant;
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

// The order from harmless to worst, independent of the enum's.
int rank_of(OutsideEffect outside) {
  switch (outside) {
    case OutsideEffect::condition: return 0;
    case OutsideEffect::factor: return 1;
    case OutsideEffect::divisor: return 2;
    case OutsideEffect::unknown: return 3;
  }
  return 3;
}

// Records the effect of every variable in `e`, which is a subexpression with the effect `place`.
void find_outside_effects(const Expr& e, OutsideEffect place, std::map<int, OutsideEffect>& found) {
  if (e->kind == ExprKind::variable) {
    auto [at, fresh] = found.try_emplace(e->variable, place);
    if (!fresh && rank_of(at->second) < rank_of(place)) at->second = place;
    return;
  }
  for (int k = 0; k < operands_of(e->kind); ++k) {
    const Expr& operand = e->operands[static_cast<std::size_t>(k)];
    OutsideEffect within = OutsideEffect::unknown;
    if (place == OutsideEffect::condition || is_boolean(e->kind) || (e->kind == ExprKind::select && k == 0)) {
      within = OutsideEffect::condition;
    } else if (place == OutsideEffect::factor) {
      switch (e->kind) {
        case ExprKind::neg:
        case ExprKind::add:
        case ExprKind::sub:
        case ExprKind::mul:
        case ExprKind::select: within = OutsideEffect::factor; break;
        case ExprKind::div:
          within = k == 0                                ? OutsideEffect::factor
                   : operand->kind == ExprKind::variable ? OutsideEffect::divisor
                                                         : OutsideEffect::unknown;
          break;
        default: break;
      }
    }
    find_outside_effects(operand, within, found);
  }
}

}  // namespace

std::map<int, OutsideEffect> outside_effects(const Expr& expr) {
  std::map<int, OutsideEffect> found;
  find_outside_effects(expr, OutsideEffect::factor, found);
  std::erase_if(found, [](const auto& one) { return one.second == OutsideEffect::factor; });
  return found;
}

std::string_view name_of(OperandDTypes dtypes) {
  constexpr std::string_view names[] = {"f32 or f64", "numbers", "bool", "anything"};
  return names[static_cast<int>(dtypes)];
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
  if (n > 6) return groups;  // subsets of long fused chains are not worth a search
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
