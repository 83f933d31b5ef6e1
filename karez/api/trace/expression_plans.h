// Runs expressions that were written outside of traces: joins them into one program, which is compiled once for each
// structure and called with its operands.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/trace/expression.h"

namespace karez {

struct ExpressionProgram;

// The programs that a world has run, each as a function of its arguments; the most recently used last. The world owns
// them, so their functions keep no world alive.
struct ExpressionPlans {
  struct Plan {
    std::string key;  // its structure
    Function function;
    std::shared_ptr<const ExpressionProgram*> program;  // the program to trace, during a call
    std::int64_t bytes = 0;                             // of its values; equal on every rank
  };
  std::mutex mutex;  // held while a program is assembled and called
  std::vector<Plan> plans;
  std::int64_t compiled = 0;  // number of programs since the world was created
};

std::shared_ptr<WorldState> world_of(const Expression& expression);  // an error if it no longer exists or was never set
DeviceMesh mesh_of(const Expression* expression);  // mesh on which it is computed; null: a value without an expression

// Whether the value's layout is known only after it is computed: for large values with split operands. Equal on every
// rank.
bool has_planner_layout(const LazyValue& value);

// Starts to compute these values, and with them the intermediate values that the user can still read. Values that are
// already computed are kept.
void run(const LazyValues& wanted, const SourceLine& where);
// Computes an expression that reads or writes variables immediately, so that these accesses keep the order of the
// program.
void run_now(const std::shared_ptr<Expression>& expression, const SourceLine& where);

}  // namespace karez
