// Parses and prints row programs.
#include "karez/base/row_program.h"

#include <algorithm>

#include "karez/base/text.h"

namespace karez::base {
namespace {

constexpr std::string_view names[] = {"", "row_sum", "row_max", "row_min", "one_hot"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

int variable_from(std::string_view text, std::string_view statement) {
  const Expr variable = parse_expr(trimmed(text));
  require(variable->kind == ExprKind::variable, "row program: expected a variable in '", statement, "'");
  return variable->variable;
}

RowStatement statement_from(std::string_view text, std::string_view statement) {
  for (const auto kind :
       {RowStatementKind::sum, RowStatementKind::max, RowStatementKind::min, RowStatementKind::one_hot})
    if (starts_with(text, cat(name_of(kind), "("))) {
      require(text.back() == ')', "row program: expected ')' at the end of '", statement, "'");
      text.remove_prefix(name_of(kind).size() + 1), text.remove_suffix(1);
      return {kind, expr_variable(variable_from(text, statement))};
    }
  return {RowStatementKind::each, parse_expr(text)};
}

}  // namespace

std::string_view name_of(RowStatementKind kind) { return names[static_cast<std::size_t>(kind)]; }

void variables_of(const Expr& expr, std::vector<int>& out) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::variable && std::find(out.begin(), out.end(), expr->variable) == out.end())
    out.push_back(expr->variable);
  for (const Expr& operand : expr->operands) variables_of(operand, out);
}

RowProgram parse_row_program(std::string_view text) {
  RowProgram out;
  int next = -1;
  while (true) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view statement = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    constexpr std::string_view last = "return ";
    if (starts_with(statement, last)) {
      for (std::string_view left = statement.substr(last.size()); !left.empty();) {
        const std::size_t comma = std::min(left.find(','), left.size());
        const int result = variable_from(left.substr(0, comma), statement);
        require(result >= out.inputs && result < next, "row program: a result must be x", out.inputs, " to x", next - 1,
                ", got x", result);
        out.results.push_back(result);
        left.remove_prefix(std::min(comma + 1, left.size()));
      }
      require(text.empty(), "row program: nothing may follow '", statement, "', got '", text, "'");
      return out;
    }
    const std::size_t equals = statement.find('=');
    require(equals != std::string_view::npos && equals > 0, "row program: expected 'x0 = ...' or 'return x0', got '",
            statement, "'");
    const int defined = variable_from(statement.substr(0, equals), statement);
    if (next < 0) out.inputs = next = defined;
    require(defined == next, "row program: expected a definition of x", next, ", got '", statement, "'");
    out.statements.push_back(statement_from(trimmed(statement.substr(equals + 1)), statement));
    std::vector<int> read;
    variables_of(out.statements.back().expr, read);
    for (const int variable : read)
      require(variable < defined, "row program: '", statement, "' reads x", variable, ", which is not defined yet");
    ++next;
  }
}

std::string print(const RowProgram& program) {
  std::string out;
  int next = program.inputs;
  for (const auto& [kind, expr] : program.statements) {
    const std::string value = print(expr);
    out += kind == RowStatementKind::each ? cat("x", next, " = ", value, "; ")
                                          : cat("x", next, " = ", name_of(kind), "(", value, "); ");
    ++next;
  }
  return out + "return " + join(program.results, ", ", [](int result) { return cat("x", result); });
}

}  // namespace karez::base
