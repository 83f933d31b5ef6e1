// Adds expressions to the deferred reads of their worlds, and runs them.
#include "karez/api/trace/variable_reads.h"

#include <algorithm>
#include <exception>
#include <mutex>

#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/expression_program.h"
#include "karez/api/trace/index_checks.h"

namespace karez {
namespace {

bool may_be_read(const Expression& expression) { return !expression.pending_values().empty(); }

void run_deferred(Expression& expression) {
  try {
    run(expression.pending_values(), expression.where);
  } catch (const Error&) {
    const auto world = expression.world.lock();
    if (world == nullptr) return;                         // reading the tensor reports that the world no longer exists
    std::lock_guard lock(world->expression_plans.mutex);  // reads of other threads check `failure` with this lock
    expression.failure = std::current_exception();
  }
}

bool is_known(const LazyValue& value) { return value.host.valid() && value.batch_rows == nullptr; }

// Whether all nodes that may fail use only indices that are host values and in range.
bool has_valid_indices(const Expression& expression) {
  const Graph& graph = expression.graph();
  std::vector<IndexCheck> checks;
  std::vector<Argument> arguments;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    if (!may_fail(graph, node) || passes_elements(graph, node)) continue;
    if (arguments.empty()) {
      checks = index_checks(graph, operand_name);
      for (const auto& operand : expression.operands)
        arguments.push_back(is_known(*operand) ? host_argument(*operand) : Argument(Feed()));
    }
    const auto check = std::find_if(checks.begin(), checks.end(), [&](const IndexCheck& one) { return one.node == n; });
    if (check == checks.end() || !arguments[static_cast<std::size_t>(check->argument)].array.valid()) return false;
    try {
      check->validate(arguments, true);
    } catch (const Error&) { return false; }
  }
  return true;
}

}  // namespace

bool may_defer(Expression& expression) {
  const auto world = world_of(expression);
  // With several ranks all of them must run the same programs, but each rank decides itself which tensors still exist.
  if (!world->ranks.alone()) return false;
  if (!has_valid_indices(expression)) return false;  // an index out of range is reported immediately
  {
    WorldLock lock(*world);
    for (const Parameter& parameter : expression.trace.parameters())
      if (world->variables.find(parameter) == world->variables.by_key.end()) return false;  // has no value yet
    expression.generation = world->generation;
  }
  expression.last_read = world->deferred_reads.next_number();
  if (expression.first_read == 0) expression.first_read = expression.last_read;
  return true;
}

void defer(const std::shared_ptr<Expression>& expression, const SourceLine& where) {
  expression->where = where;
  const auto world = world_of(*expression);
  world->deferred_reads.add(expression, {.may_be_read = may_be_read, .run = run_deferred});
}

}  // namespace karez
