// Implements DeferredReads, and decides which expressions that read variables are deferred.
#include "karez/api/trace/deferred_reads.h"

#include <algorithm>
#include <utility>

#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/expression_program.h"

namespace karez {
namespace {

constexpr std::size_t max_list = 256;     // a longer list is searched for expressions that need not run any more
constexpr std::size_t max_deferred = 64;  // bounds the memory of operands

bool may_be_read(const std::weak_ptr<Expression>& weak) {
  const auto expression = weak.lock();
  return expression != nullptr && !expression->pending_values().empty();
}

}  // namespace

bool DeferredReads::add(const std::shared_ptr<Expression>& expression) {
  std::lock_guard lock(mutex_);
  list_.push_back(expression);
  bool too_many = false;
  if (list_.size() >= max_list) {
    std::erase_if(list_, [](const auto& other) { return !may_be_read(other); });
    too_many = list_.size() > max_deferred;
  }
  size_ = list_.size();
  return too_many;
}

std::vector<std::shared_ptr<Expression>> DeferredReads::take() {
  if (size_ == 0) return {};
  std::vector<std::shared_ptr<Expression>> out;
  std::lock_guard lock(mutex_);
  for (auto weak = list_.rbegin(); weak != list_.rend(); ++weak)
    if (auto expression = weak->lock()) out.push_back(std::move(expression));
  list_.clear();
  size_ = 0;
  return out;
}

void run_deferred_reads(WorldState& world) {
  // The latest expressions first: they include the expressions that they need.
  for (const auto& expression : world.deferred_reads.take()) {
    try {
      run(expression->pending_values(), expression->where);
    } catch (const Error&) { expression->failure = std::current_exception(); }
  }
}

bool defer_reads(Expression& expression) {
  const auto world = world_of(expression);
  // With several ranks all of them must run the same programs, but each rank decides itself which tensors still exist.
  if (!world->ranks.alone()) return false;
  const Graph& graph = expression.trace.graph;
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

}  // namespace karez
