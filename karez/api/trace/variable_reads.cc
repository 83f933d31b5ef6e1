// Adds expressions to the deferred reads of their worlds, and runs them.
#include "karez/api/trace/variable_reads.h"

#include <algorithm>
#include <exception>
#include <mutex>

#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/expression_program.h"

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

}  // namespace

bool may_defer(Expression& expression) {
  const auto world = world_of(expression);
  // With several ranks all of them must run the same programs, but each rank decides itself which tensors still exist.
  if (!world->ranks.alone()) return false;
  const Graph& graph = expression.graph();
  // An index out of range is reported immediately.
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return may_fail(graph, node); }))
    return false;
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
