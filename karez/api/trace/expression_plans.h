// Functions that run expressions: they join the expressions into one program, which is compiled once for each structure
// and called with its operands.
#pragma once

#include <memory>

#include "karez/api/compile.h"
#include "karez/api/trace/expression.h"

namespace karez {

struct ExpressionProgram;

// A function that runs all programs of one structure.
struct ExpressionPlan {
  Function function;
  std::shared_ptr<const ExpressionProgram*> program;  // the program to trace, during a call
};

// Returns whether the planner chooses the value's layout, so that the layout is known only after the computation: for
// large values with split operands. The result is equal on every rank.
bool has_planner_layout(const LazyValue& value);

// Starts to compute these values, and with them the intermediate values that the user can still read. Values that are
// already computed are kept.
void run(const LazyValues& values, const SourceLine& where);
// Computes an expression that reads or writes variables immediately, so that these accesses keep the order of the
// program.
void run_now(const std::shared_ptr<Expression>& expression, const SourceLine& where);

}  // namespace karez
