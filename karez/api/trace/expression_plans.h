// Functions that run expressions. They join expressions into a program, which is compiled once for each structure and
// called with the operands.
#pragma once

#include <memory>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/trace/expression_program.h"

namespace karez {

// A function that runs all programs of one structure.
struct ExpressionPlan {
  Function function;
  std::shared_ptr<const ExpressionProgram*> program;       // during a call: the program to trace
  std::vector<ExpressionProgram::ValueSource> saved = {};  // results for backward, after those of the program
};

// Returns whether the planner chooses the value's layout, which is then known only after the computation. This is the
// case for large values with split operands. The result is the same on every rank.
bool has_planner_layout(const LazyValue& value);

// Starts to compute these values and all intermediate values that the user can still read. Values that are already
// computed are kept.
void run(const LazyValues& values, const SourceLine& where);
// Computes an expression immediately. Expressions that read or write variables need this, so that these accesses happen
// in program order.
void run_now(const std::shared_ptr<Expression>& expression, const SourceLine& where);

}  // namespace karez
