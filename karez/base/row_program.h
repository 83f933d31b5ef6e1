// Row programs: expressions and reductions over the rows of a matrix, whose results later statements use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/expr.h"

namespace karez::base {

// How an operand extends over the matrix of rows x columns, and the shape that says so.
enum class RowExtent : std::uint8_t {
  scalar,      // [1, 1]
  per_row,     // [rows, 1]
  per_column,  // [1, columns]
  full,        // [rows, columns]
};

// What a statement computes: an expression of each element, the reduction of each row to one value, or 1 where the
// number of the column equals the value of the row and 0 elsewhere.
enum class RowStatementKind : std::uint8_t { each, sum, max, min, one_hot };
std::string_view name_of(RowStatementKind kind);  // as printed: "", "row_sum", "row_max", "row_min", "one_hot"

struct RowStatement {
  RowStatementKind kind = RowStatementKind::each;
  Expr expr;  // of earlier variables; a single variable if `kind` is not `each`
};

// The variables x0, x1, ... are the inputs, then the values of the statements in their order. A softmax of x0:
//   x1 = row_max(x0); x2 = exp(x0 - x1); x3 = row_sum(x2); x4 = x2 / x3; return x4
struct RowProgram {
  int inputs = 0;
  std::vector<RowStatement> statements;
  std::vector<int> results;  // variables that statements define
};
constexpr int max_row_variables = 64;

// Errors name the statement that is wrong.
RowProgram parse_row_program(std::string_view text);
std::string print(const RowProgram& program);
// Adds the numbers of the variables that the expression reads to `out`, once each.
void variables_of(const Expr& expr, std::vector<int>& out);

}  // namespace karez::base
