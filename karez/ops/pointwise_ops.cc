// The pointwise ops: a row of the op table for each row of pointwise.cc, `pointwise` for any expression, and `cast`.
#include <algorithm>
#include <string_view>
#include <utility>

#include "karez/base/text.h"
#include "karez/ops/build.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/pointwise.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

// Returns the type of the result: bool for comparisons, otherwise the dtype of the operands that are not conditions.
TensorType infer_pointwise(std::string_view op, const Expr& expr, OperandDTypes dtypes,
                           std::span<const TensorType> in) {
  require(!in.empty(), op, ": expected at least one operand");
  int used = variable_count(expr);
  if (used > static_cast<int>(in.size()))
    fail(ErrorKind::shape, op, ": ", print(expr), " uses x", used - 1, ", but the node has ", in.size(), " operands");
  const auto is_bool = bool_operands(expr);
  const TensorType* value = nullptr;
  for (std::size_t i = 0; i < in.size(); ++i) {
    require(ErrorKind::shape, in[i].shape == in[0].shape, op, ": shapes differ: ", in[0], " and ", in[i]);
    if (i < is_bool.size() && is_bool[i]) {
      require(ErrorKind::type, in[i].dtype == DType::b8, op, ": operand ", i, " is a condition and must be bool, got ",
              in[i]);
    } else if (value == nullptr) {
      value = &in[i];
    } else {
      require_same_dtype(op, *value, in[i]);
    }
  }
  if (value != nullptr && dtypes == OperandDTypes::floats) require_float(op, *value);
  if (value != nullptr && dtypes == OperandDTypes::numbers) require_number(op, *value);
  return {is_boolean(expr->kind) || value == nullptr ? DType::b8 : value->dtype, in[0].shape};
}

bool has_division(const Expr& e) {
  if (e->kind == ExprKind::div || e->kind == ExprKind::fmod) return true;
  for (int k = 0; k < operands_of(e->kind); ++k)
    if (has_division(e->operands[static_cast<std::size_t>(k)])) return true;
  return false;
}

bool has_select(const Expr& e) {
  if (e->kind == ExprKind::select) return true;
  for (int k = 0; k < operands_of(e->kind); ++k)
    if (has_select(e->operands[static_cast<std::size_t>(k)])) return true;
  return false;
}

Signature index_pointwise(const NodeView& node, const Expr& expr) {
  Signature s = same_shape_signature(node);
  bool truncates = !is_float(node.out_type(0).dtype) && has_division(expr);  // 1 / 2 + 1 / 2 is not 2 / 2 in integers
  if (!truncates) s.linear = linear_groups(expr);
  if (!s.linear.empty()) s.outside = outside_effects(expr);
  s.picks = has_select(expr) &&
            std::any_of(s.linear.begin(), s.linear.end(), [](const auto& group) { return group.size() > 1; });
  return s;
}

// Returns the gradient of an operand: a `pointwise` node that computes slope * dy, where `slope` is the derivative of
// the result with respect to the operand. The node has only the operands that occur in this product.
ValueId gradient_by_slope(Builder& b, const NodeView& n, const Expr& slope, int operand, ValueId dy) {
  int count = static_cast<int>(n.in_count());
  if (!is_float(n.in_type(static_cast<std::size_t>(operand)).dtype) || !is_float(n.out_type(0).dtype)) return {};
  if (slope->kind == ExprKind::constant && slope->value == 0) return {};
  Expr product = expr_of(ExprKind::mul, slope, expr_variable(count));
  if (slope->kind == ExprKind::constant && slope->value == 1) return dy;

  std::vector<bool> is_read(static_cast<std::size_t>(count) + 1);
  auto visit = [&](auto&& self, const Expr& e) -> void {
    if (e->kind == ExprKind::variable) is_read[static_cast<std::size_t>(e->variable)] = true;
    for (int k = 0; k < operands_of(e->kind); ++k) self(self, e->operands[static_cast<std::size_t>(k)]);
  };
  visit(visit, product);
  std::vector<Expr> new_variables(is_read.size());
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < is_read.size(); ++i) {
    if (!is_read[i]) continue;
    new_variables[i] = expr_variable(static_cast<int>(inputs.size()));
    inputs.push_back(static_cast<int>(i) == count ? dy : n.in(i));
  }
  return build::pointwise(b, print(substitute(product, new_variables)), inputs);
}

std::vector<ValueId> derived_gradients(Builder& b, const NodeView& n, const Expr& expr, ValueId dy) {
  std::vector<ValueId> out;
  for (int i = 0, count = static_cast<int>(n.in_count()); i < count; ++i)
    out.push_back(gradient_by_slope(b, n, derive(expr, i), i, dy));
  return out;
}

// Returns gradients from explicit derivatives, one per operand and separated by ";". They are used for expressions
// whose symbolic derivative would overflow or lose precision by cancellation.
std::vector<ValueId> gradients_from_slopes(Builder& b, const NodeView& n, std::string_view slopes, ValueId dy) {
  std::vector<ValueId> out;
  for (int i = 0, count = static_cast<int>(n.in_count()); i < count; ++i) {
    const auto end = slopes.find(';');
    require((end == slopes.npos) == (i == count - 1), "pointwise: ", count, " operands require one slope each, got '",
            n.attrs().text("slopes"), "'");
    out.push_back(gradient_by_slope(b, n, parse_expr(slopes.substr(0, end)), i, dy));
    slopes.remove_prefix(end == slopes.npos ? slopes.size() : end + 1);
  }
  return out;
}

std::vector<ValueId> row_gradients(Builder& b, const NodeView& n, const Pointwise& row, ValueId dy) {
  auto value = [&](const std::string& name) {
    if (name == "dy") return dy;
    return name == "r" ? n.out(0) : n.in(static_cast<std::size_t>(name[0] - 'x'));
  };
  std::vector<ValueId> out;
  for (const PointwiseGradient& grad : row.grads) {
    if (grad.op.empty()) {
      out.push_back({});
    } else if (grad.op == "=") {
      out.push_back(dy);
    } else {
      std::vector<ValueId> operands;
      for (const auto& name : grad.operands) operands.push_back(value(name));
      out.push_back(b.add(grad.op, operands)[0]);
    }
  }
  return out;
}

// Returns whether the expression is an operation on two operands whose result does not change if they are swapped, such
// as x + y.
bool is_commutative(const Expr& expr) {
  switch (expr->kind) {
    case ExprKind::add:
    case ExprKind::mul:
    case ExprKind::max:
    case ExprKind::min:
    case ExprKind::eq:
    case ExprKind::ne:
    case ExprKind::and_:
    case ExprKind::or_: break;
    default: return false;
  }
  const Expr &a = expr->operands[0], &b = expr->operands[1];
  return a->kind == ExprKind::variable && b->kind == ExprKind::variable && a->variable != b->variable;
}

// Returns whether bf16 and f16 are too coarse for the results: e^x, x^y, and functions that are infinite at zero.
bool is_steep(const Expr& e) {
  return e->kind == ExprKind::exp || e->kind == ExprKind::log || e->kind == ExprKind::pow || e->kind == ExprKind::rsqrt;
}

// Returns the time of the functions in the expression, in evaluations of e^x. Scans the text without parsing, because
// planners call it often.
double transcendentals_in(std::string_view expr) {
  constexpr std::pair<std::string_view, double> weights[] = {{"exp", 1},   {"sigmoid", 1}, {"log", 1.5}, {"tanh", 1.5},
                                                             {"sin", 1.5}, {"cos", 1.5},   {"erf", 3},   {"phi", 3},
                                                             {"pow", 3},   {"fmod", 3}};
  double sum = 0;
  for (std::size_t open = expr.find('('); open != expr.npos; open = expr.find('(', open + 1)) {
    std::size_t begin = open;
    while (begin > 0 && expr[begin - 1] >= 'a' && expr[begin - 1] <= 'z') --begin;
    for (const auto& [name, weight] : weights)
      if (expr.substr(begin, open - begin) == name) sum += weight;
  }
  return sum;
}

OpDef make_op(const Pointwise& row) {
  Expr expr = parse_expr(row.expr);
  OpDef op{.name = row.name,
           .doc = cat(row.doc, " Elementwise on operands of equal shape; supports ", name_of(row.dtypes), "."),
           .inputs = row.operands};
  op.infer = [name = row.name, expr, dtypes = row.dtypes](std::span<const TensorType> in, const Attrs&) {
    return one_type(infer_pointwise(name, expr, dtypes, in));
  };
  op.index = [expr](const NodeView& node) { return index_pointwise(node, expr); };
  op.no_grad = row.no_grad;
  if (row.no_grad.empty() && row.grads.empty()) {
    op.grad = [expr](Builder& b, const NodeView& n, std::span<const ValueId> dy) {
      return derived_gradients(b, n, expr, dy[0]);
    };
  } else if (row.no_grad.empty()) {
    op.grad = [&row](Builder& b, const NodeView& n, std::span<const ValueId> dy) {
      return row_gradients(b, n, row, dy[0]);
    };
  }
  // The result may overwrite any operand of the same dtype, but not the operands of a comparison of numbers or the
  // condition of a select.
  const auto is_bool = bool_operands(expr);
  bool bools = row.dtypes == OperandDTypes::bools;
  for (int i = 0; i < row.operands; ++i)
    if (bools || (!row.returns_bool && !is_bool[static_cast<std::size_t>(i)])) op.in_place.push_back({i, 0});
  std::vector<std::string> example;
  for (int i = 0; i < row.operands; ++i)
    example.emplace_back(is_bool[static_cast<std::size_t>(i)] ? "bool[6]" : "f32[6]");
  op.example = cat(row.name, "(", join(example, ", "), ")");
  op.expr = row.expr;
  op.transcendentals = transcendentals_in(row.expr);
  op.half_policy = is_steep(expr) ? HalfPolicy::widen : HalfPolicy::widen_and_round;
  op.elementwise = true;
  op.commutative = is_commutative(expr);
  // Maxima could be regrouped, too, but this would not let programs share work.
  op.associative = op.commutative && (expr->kind == ExprKind::add || expr->kind == ExprKind::mul);
  op.overflows_regrouped = op.associative && expr->kind == ExprKind::mul;
  return op;
}

OpDef expression_op() {
  OpDef op{.name = "pointwise",
           .doc =
               "Evaluates the scalar expression {expr} over x0, x1, ... at every element. Operands have equal shapes; "
               "conditions are bool, and all others have the same dtype. The result of a comparison has dtype "
               "{dtype_out}, which is bool by default. {slopes} are the derivatives; by default they are derived from "
               "the expression.",
           .inputs = -1};
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    Expr expr = parse_expr(attrs.text("expr"));
    TensorType out = infer_pointwise("pointwise", expr, OperandDTypes::any, in);
    if (attrs.has("dtype_out")) {
      DType dtype_out = dtype_from(attrs.text("dtype_out"));
      if (dtype_out != out.dtype && out.dtype != DType::b8)
        fail(ErrorKind::type, "pointwise: ", print(expr), " has dtype ", name_of(out.dtype), ", expected ",
             name_of(dtype_out));
      out.dtype = dtype_out;
    }
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) { return index_pointwise(node, parse_expr(node.attrs().text("expr"))); };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) {
    if (n.attrs().has("slopes")) return gradients_from_slopes(b, n, n.attrs().text("slopes"), dy[0]);
    return derived_gradients(b, n, parse_expr(n.attrs().text("expr")), dy[0]);
  };
  op.half_policy = HalfPolicy::widen_and_round;
  op.cost = [](std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
    const double transcendentals =
        attrs.has("expr") ? transcendentals_in(attrs.text("expr")) : 0;  // a hand-written plan may have no expression
    return Cost{WorkClass::memory, transcendentals * static_cast<double>(out[0].count()), bytes_of(in, out)};
  };
  return op;
}

OpDef cast() {
  OpDef op{.name = "cast",
           .doc =
               "Converts x to dtype {to}. Floats are truncated to integers, bools become 0 or 1, and numbers become "
               "true unless they are 0.",
           .inputs = 1};
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    return one_type({dtype_from(attrs.text("to")), in[0].shape});
  };
  op.index = [](const NodeView& node) {
    Signature s = same_shape_signature(node);
    // Truncating summands differs from truncating their sum, so only casts from float to float accept Partial.
    if (is_float(node.in_type(0).dtype) && is_float(node.out_type(0).dtype)) s.linear = {{0}};
    return s;
  };
  op.elementwise = true;
  op.half_policy = HalfPolicy::keep;
  op.work = WorkClass::move;
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    DType from = n.in_type(0).dtype;
    if (!is_float(from) || !is_float(n.out_type(0).dtype)) return {ValueId()};
    return {build::cast(b, dy[0], from)};
  };
  return op;
}

}  // namespace

std::vector<OpDef> pointwise_ops() {
  std::vector<OpDef> ops;
  for (const Pointwise& row : pointwise_rows()) ops.push_back(make_op(row));
  ops.push_back(expression_op());
  ops.push_back(cast());
  return ops;
}

}  // namespace karez::ops
