// Scalar expressions: construction, parsing, printing and flattening.
#include "karez/base/expr.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "karez/base/scanner.h"

namespace karez::base {
namespace {

constexpr int max_depth = 1000;

// One row per ExprKind, in its order. An operator has a precedence (1 weakest, 7 unary); a function has 0.
struct Row {
  std::string_view name;
  int operands;
  int precedence;
};
constexpr Row rows[] = {
    {"constant", 0, 0}, {"variable", 0, 0}, {"-", 1, 7},     {"!", 1, 7},       {"exp", 1, 0},    {"log", 1, 0},
    {"sqrt", 1, 0},     {"rsqrt", 1, 0},    {"tanh", 1, 0},  {"sigmoid", 1, 0}, {"erf", 1, 0},    {"phi", 1, 0},
    {"abs", 1, 0},      {"sin", 1, 0},      {"cos", 1, 0},   {"+", 2, 5},       {"-", 2, 5},      {"*", 2, 6},
    {"/", 2, 6},        {"<", 2, 4},        {"<=", 2, 4},    {">", 2, 4},       {">=", 2, 4},     {"==", 2, 3},
    {"!=", 2, 3},       {"&&", 2, 2},       {"||", 2, 1},    {"pow", 2, 0},     {"max", 2, 0},    {"min", 2, 0},
    {"fmod", 2, 0},     {"bitand", 2, 0},   {"bitor", 2, 0}, {"bitxor", 2, 0},  {"select", 3, 0},
};
static_assert(std::size(rows) == static_cast<std::size_t>(ExprKind::select) + 1);
const Row& row(ExprKind kind) { return rows[static_cast<std::size_t>(kind)]; }

// Binary operators by precedence, longer texts first so that "<=" is not parsed as "<".
constexpr ExprKind operators[] = {ExprKind::or_, ExprKind::and_, ExprKind::eq,  ExprKind::ne,
                                  ExprKind::le,  ExprKind::ge,   ExprKind::lt,  ExprKind::gt,
                                  ExprKind::add, ExprKind::sub,  ExprKind::mul, ExprKind::div};

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text, "expression") {}

  Expr parse() {
    Expr out = binary(1);
    if (!in_.at_end()) in_.fail_here("unexpected text after the expression");
    return out;
  }

 private:
  Expr binary(int precedence) {
    if (precedence == 7) return unary();
    Expr left = binary(precedence + 1);
    while (true) {
      auto at = std::find_if(std::begin(operators), std::end(operators),
                             [&](ExprKind k) { return row(k).precedence == precedence && in_.accept(row(k).name); });
      if (at == std::end(operators)) return left;
      left = expr_of(*at, std::move(left), binary(precedence + 1));
    }
  }

  Expr unary() {
    if (++nesting_ > 200) in_.fail_here("nested too deeply");
    Expr out;
    if (in_.peek_number()) {  // "-2" is a constant; "-(2)" is a negation
      bool is_integer = false;
      double value = in_.number(is_integer);
      if (is_integer && std::abs(value) >= 9007199254740992.0) in_.fail_here("the preceding integer is beyond 2^53");
      out = expr_constant(value);
    } else if (in_.accept("-")) {
      out = expr_of(ExprKind::neg, unary());
    } else if (in_.accept("!")) {
      out = expr_of(ExprKind::not_, unary());
    } else if (in_.accept("(")) {
      out = binary(1);
      in_.expect(")");
    } else {
      out = named();
    }
    --nesting_;
    return out;
  }

  Expr named() {
    if (!in_.peek_name()) in_.fail_here("expected a number, a variable, a function or '('");
    Scanner name_start = in_;
    std::string name = in_.word();
    if (name == "x" || name == "y" || name == "z") return expr_variable(name[0] - 'x');
    bool digits = name.size() <= 3 && name.find_first_not_of("0123456789", 1) == std::string::npos;
    if (name[0] == 'x' && digits && std::stoi(name.substr(1)) < max_variables)
      return expr_variable(std::stoi(name.substr(1)));
    for (int i = 0; i < static_cast<int>(std::size(rows)); ++i) {
      if (rows[i].name != name || rows[i].operands == 0) continue;
      std::array<Expr, 3> operands;
      for (int k = 0; k < rows[i].operands; ++k) {
        in_.expect(k == 0 ? "(" : ",");
        operands[static_cast<std::size_t>(k)] = binary(1);
      }
      in_.expect(")");
      return expr_of(static_cast<ExprKind>(i), operands[0], operands[1], operands[2]);
    }
    name_start.fail_here(cat("'", name, "' is neither a variable (x0 to x", max_variables - 1, ") nor a function"));
  }

  Scanner in_;
  int nesting_ = 0;
};

std::string number_text(double value) {
  bool is_whole_number = value == std::trunc(value) && std::abs(value) < 1e15 && !(value == 0 && std::signbit(value));
  return is_whole_number ? std::to_string(static_cast<std::int64_t>(value)) : number(value);
}

void write(std::string& out, const Expr& e, int min_precedence) {
  const Row& r = row(e->kind);
  const auto& [a, b, c] = e->operands;
  if (e->kind == ExprKind::constant) {
    out += number_text(e->value);
  } else if (e->kind == ExprKind::variable) {
    out += cat("x", e->variable);
  } else if (r.precedence == 0) {
    out += r.name;
    for (int k = 0; k < r.operands; ++k) {
      out += k == 0 ? "(" : ", ";
      write(out, e->operands[static_cast<std::size_t>(k)], 0);
    }
    out += ")";
  } else {
    bool parenthesize = r.precedence < min_precedence;
    if (parenthesize) out += "(";
    if (r.operands == 2) {  // all operators associate to the left: a - b - c is (a - b) - c
      write(out, a, r.precedence);
      out += cat(" ", r.name, " ");
      write(out, b, r.precedence + 1);
    } else {
      out += r.name;
      bool literal = a->kind == ExprKind::constant;
      if (literal) out += "(";
      write(out, a, r.precedence);
      if (literal) out += ")";
    }
    if (parenthesize) out += ")";
  }
}

// Value numbering, then register allocation by last use.
class Flattener {
 public:
  ExprProgram run(const Expr& expr) {
    out_.variables = variable_count(expr);
    int result = visit(expr);
    int fixed = out_.variables + static_cast<int>(out_.constants.size());
    // Operand numbers at this point: variable i is i, constant i is -1 - i, temporary i is 1000 + i.
    std::vector<int> last_use(out_.ops.size(), -1);
    for (std::size_t i = 0; i < out_.ops.size(); ++i)
      for (int r : {out_.ops[i].a, out_.ops[i].b, out_.ops[i].c})
        if (is_temporary(r)) last_use[static_cast<std::size_t>(r - first_temporary)] = static_cast<int>(i);
    std::vector<int> assigned(out_.ops.size(), -1), unused;
    int next = fixed;
    auto register_of = [&](int r) {
      return r == no_operand   ? -1
             : r < 0           ? out_.variables - 1 - r
             : is_temporary(r) ? assigned[static_cast<std::size_t>(r - first_temporary)]
                               : r;
    };
    for (std::size_t i = 0; i < out_.ops.size(); ++i) {
      ExprOp& op = out_.ops[i];
      std::array<int*, 3> operands{&op.a, &op.b, &op.c};
      std::array<int, 3> names{op.a, op.b, op.c};
      for (int k = 0; k < 3; ++k) *operands[k] = register_of(names[k]);
      for (int k = 0; k < 3; ++k) {
        bool repeated = std::find(names.begin(), names.begin() + k, names[k]) != names.begin() + k;
        if (!repeated && is_temporary(names[k]) &&
            last_use[static_cast<std::size_t>(names[k] - first_temporary)] == static_cast<int>(i))
          unused.push_back(*operands[k]);
      }
      if (unused.empty()) unused.push_back(next++);
      auto lowest = std::min_element(unused.begin(), unused.end());
      assigned[i] = op.dst = *lowest;
      unused.erase(lowest);
    }
    out_.registers = next;
    out_.result = register_of(result);
    return std::move(out_);
  }

 private:
  static constexpr int first_temporary = 1000, no_operand = std::numeric_limits<int>::min();
  static bool is_temporary(int r) { return r >= first_temporary; }

  int visit(const Expr& e) {
    if (e == nullptr) return no_operand;
    if (auto at = seen_.find(e.get()); at != seen_.end()) return at->second;
    int& name = seen_[e.get()];
    if (e->kind == ExprKind::variable) return name = e->variable;
    if (e->kind == ExprKind::constant) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &e->value, sizeof bits);
      auto [at, inserted] = constants_.try_emplace(bits, -1 - static_cast<int>(out_.constants.size()));
      if (inserted) out_.constants.push_back(e->value);
      return name = at->second;
    }
    // The deepest operand comes first: it needs the most registers, and the others occupy none yet.
    std::array<int, 3> order{0, 1, 2}, value{no_operand, no_operand, no_operand};
    auto depth = [&](int k) {
      return e->operands[static_cast<std::size_t>(k)] ? e->operands[static_cast<std::size_t>(k)]->depth : 0;
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return depth(a) > depth(b); });
    for (int k : order) value[static_cast<std::size_t>(k)] = visit(e->operands[static_cast<std::size_t>(k)]);
    auto [at, inserted] =
        ops_.try_emplace({e->kind, value[0], value[1], value[2]}, first_temporary + static_cast<int>(out_.ops.size()));
    if (inserted) out_.ops.push_back({e->kind, value[0], value[1], value[2], -1});
    return name = at->second;
  }

  ExprProgram out_;
  std::map<const ExprNode*, int> seen_;
  std::map<std::uint64_t, int> constants_;
  std::map<std::tuple<ExprKind, int, int, int>, int> ops_;
};

}  // namespace

std::string_view name_of(ExprKind kind) { return row(kind).name; }
int operands_of(ExprKind kind) { return row(kind).operands; }

Expr expr_constant(double value) {
  return std::make_shared<const ExprNode>(ExprNode{ExprKind::constant, value, 0, 1, 0, {}});
}

Expr expr_variable(int index) {
  require(index >= 0 && index < max_variables, "an expression's variable must be x0 to x", max_variables - 1, ", got x",
          index);
  return std::make_shared<const ExprNode>(ExprNode{ExprKind::variable, 0, index, 1, index + 1, {}});
}

Expr expr_of(ExprKind kind, Expr a, Expr b, Expr c) {
  int operand_count = (a != nullptr) + (b != nullptr) + (c != nullptr);
  require(operand_count == operands_of(kind) && operand_count > 0, "'", name_of(kind), "' takes ", operands_of(kind),
          " operands, got ", operand_count);
  int depth = 0, variables = 0;
  for (const Expr* e : {&a, &b, &c})
    if (*e) depth = std::max(depth, (*e)->depth), variables = std::max(variables, (*e)->variables);
  require(depth < max_depth, "an expression is nested deeper than ", max_depth);
  return std::make_shared<const ExprNode>(
      ExprNode{kind, 0, 0, depth + 1, variables, {std::move(a), std::move(b), std::move(c)}});
}

Expr parse_expr(std::string_view text) { return Parser(text).parse(); }

std::string print(const Expr& expr) {
  std::string out;
  write(out, expr, 0);
  return out;
}

bool same(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->kind != b->kind || a->variable != b->variable || a->depth != b->depth)
    return false;
  if (std::memcmp(&a->value, &b->value, sizeof(double)) != 0) return false;
  return same(a->operands[0], b->operands[0]) && same(a->operands[1], b->operands[1]) &&
         same(a->operands[2], b->operands[2]);
}

ExprProgram flatten(const Expr& expr) { return Flattener().run(expr); }

}  // namespace karez::base
