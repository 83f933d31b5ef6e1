// Running what was written outside of traces: expressions put together to a program, compiled once for each structure,
// called with what they take.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/trace/expression.h"

namespace karez {

struct ExpressionProgram;

// The programs that a world has run, each as a function of its arguments; the latest used last. A world's own: its
// functions keep no world alive.
struct ExpressionPlans {
  struct Plan {
    std::string key;  // its structure
    Function function;
    std::shared_ptr<const ExpressionProgram*> program;  // what it is traced from, during a call
    std::int64_t bytes = 0;                             // of its values, the same on every rank
  };
  std::mutex mutex;  // held while a program is put together and called
  std::vector<Plan> plans;
  std::int64_t compiled = 0;  // programs, since the world began
};

std::shared_ptr<WorldState> world_of(const Expression& expression);  // gone, or never known: an error
DeviceMesh mesh_of(const Expression* expression);  // where it is computed; null stands for what no expression makes

// Whether how the value will lie is known only once it is computed: a large one whose operands are divided. The same on
// every rank.
bool has_planner_layout(const LazyValue& value);

// Begins to compute these, and with them what stands on the way and somebody may still ask for. What is there already
// stays.
void run(const LazyValues& wanted, const SourceLine& where);
// An expression that reads or writes variables: in the order of the program, so that it is not left for later.
void run_now(const std::shared_ptr<Expression>& expression, const SourceLine& where);

}  // namespace karez
