// Derivatives of scalar expressions and substitution in them.
#include <map>
#include <numbers>

#include "karez/base/expr.h"

namespace karez::base {
namespace {

bool is(const Expr& e, double value) { return e->kind == ExprKind::constant && e->value == value; }

// Returns the node kind(a, b), with simplifications that are valid for derivatives: neutral factors and terms are
// dropped, a product with 0 is 0, and constants are folded.
Expr simple(ExprKind kind, const Expr& a, const Expr& b = nullptr) {
  bool constants = a->kind == ExprKind::constant && (b == nullptr || b->kind == ExprKind::constant);
  if (constants) return expr_constant(apply<double>(kind, a->value, b ? b->value : 0) + 0.0);  // never -0
  switch (kind) {
    case ExprKind::neg:
      if (a->kind == ExprKind::neg) return a->operands[0];
      break;
    case ExprKind::add:
      if (is(a, 0)) return b;
      if (is(b, 0)) return a;
      break;
    case ExprKind::sub:
      if (is(b, 0)) return a;
      if (is(a, 0)) return simple(ExprKind::neg, b);
      break;
    case ExprKind::mul:
      if (is(a, 0) || is(b, 0)) return expr_constant(0);
      if (is(a, 1)) return b;
      if (is(b, 1)) return a;
      if (is(a, -1)) return simple(ExprKind::neg, b);
      if (is(b, -1)) return simple(ExprKind::neg, a);
      break;
    case ExprKind::div:
      if (is(a, 0)) return expr_constant(0);
      if (is(b, 1)) return a;
      break;
    case ExprKind::pow:
      if (is(b, 1)) return a;
      break;
    default: break;
  }
  return expr_of(kind, a, b);
}
Expr sum(const Expr& a, const Expr& b) { return simple(ExprKind::add, a, b); }
Expr difference(const Expr& a, const Expr& b) { return simple(ExprKind::sub, a, b); }
Expr product(const Expr& a, const Expr& b) { return simple(ExprKind::mul, a, b); }
Expr ratio(const Expr& a, const Expr& b) { return simple(ExprKind::div, a, b); }
Expr choose(const Expr& c, const Expr& a, const Expr& b) { return same(a, b) ? a : expr_of(ExprKind::select, c, a, b); }

class Derivative {
 public:
  explicit Derivative(int variable) : variable_(variable) {}

  Expr of(const Expr& e) {
    if (auto at = seen_.find(e.get()); at != seen_.end()) return at->second;
    return seen_[e.get()] = compute(e);
  }

 private:
  Expr compute(const Expr& e) {
    using enum ExprKind;
    Expr zero = expr_constant(0), one = expr_constant(1);
    if (e->kind == constant || is_boolean(e->kind)) return zero;
    if (e->kind == variable) return e->variable == variable_ ? one : zero;
    const auto& [a, b, c] = e->operands;
    if (e->kind == ExprKind::select) return choose(a, of(b), of(c));
    Expr da = of(a), db = b ? of(b) : nullptr;
    switch (e->kind) {
      case neg: return simple(neg, da);
      case exp: return product(da, e);
      case log: return ratio(da, a);
      case sqrt: return ratio(product(da, expr_constant(0.5)), e);
      case rsqrt: return product(product(da, expr_constant(-0.5)), product(e, product(e, e)));
      case tanh: return product(da, difference(one, product(e, e)));
      case sigmoid: return product(da, product(e, difference(one, e)));
      case erf:
        return product(product(da, expr_constant(2 * std::numbers::inv_sqrtpi)),
                       expr_of(exp, simple(neg, product(a, a))));
      case phi: {
        Expr half_square = product(expr_constant(-0.5), product(a, a));
        return product(product(da, expr_constant(std::numbers::inv_sqrtpi / std::numbers::sqrt2)),
                       expr_of(exp, half_square));
      }
      case abs:
        return product(da, choose(expr_of(gt, a, zero), one, choose(expr_of(lt, a, zero), expr_constant(-1), zero)));
      case sin: return product(da, expr_of(cos, a));
      case cos: return simple(neg, product(da, expr_of(sin, a)));
      case add: return sum(da, db);
      case sub: return difference(da, db);
      case mul: return sum(product(da, b), product(a, db));
      case div: return difference(ratio(da, b), ratio(product(db, e), b));
      // The derivative is b a^(b-1) a' + log(a) a^b b'. If b is constant, the second term is dropped, so that a may be
      // negative. The slope of a^0 is 0, even at a = 0, where the first term is 0 times infinity; the slope of 0^b in b
      // is 0.
      case pow: {
        Expr in_a = product(product(da, b), simple(pow, a, difference(b, one)));
        if (b->kind != constant) in_a = choose(expr_of(eq, b, zero), zero, in_a);
        if (is(db, 0)) return in_a;
        Expr in_b = product(expr_of(log, a), e);
        return sum(in_a, product(db, a->kind == constant ? in_b : choose(expr_of(eq, a, zero), zero, in_b)));
      }
      case max: return choose(expr_of(ge, a, b), da, db);
      case min: return choose(expr_of(le, a, b), da, db);
      case fmod: return difference(da, product(db, ratio(difference(a, e), b)));
      default: fail("no derivative of '", name_of(e->kind), "'");
    }
  }

  int variable_;
  std::map<const ExprNode*, Expr> seen_;
};

}  // namespace

Expr derive(const Expr& expr, int variable) { return Derivative(variable).of(expr); }

Expr substitute(const Expr& expr, std::span<const Expr> with) {
  std::map<const ExprNode*, Expr> visited;
  auto visit = [&](auto&& self, const Expr& e) -> Expr {
    if (e == nullptr || e->kind == ExprKind::constant) return e;
    if (e->kind == ExprKind::variable) {
      auto index = static_cast<std::size_t>(e->variable);
      if (index >= with.size() || with[index] == nullptr)
        fail("no replacement is given for x", e->variable, " of ", print(expr));
      return with[index];
    }
    if (auto at = visited.find(e.get()); at != visited.end()) return at->second;
    Expr out = expr_of(e->kind, self(self, e->operands[0]), self(self, e->operands[1]), self(self, e->operands[2]));
    return visited[e.get()] = out;
  };
  return visit(visit, expr);
}

}  // namespace karez::base
