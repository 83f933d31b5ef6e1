// Searches backward from an actor along the registers that it reads.
#include "karez/passes/lowering/actor_order.h"

#include <utility>
#include <vector>

namespace karez::passes {

ActorOrder::ActorOrder(const Plan& plan, ActorId first_fetch)
    : first_fetch_(first_fetch),
      predecessors_(plan.actors.size()),
      visited_in_(plan.actors.size(), 0) {
  for (const Register& reg : plan.registers)
    for (ActorId consumer : reg.consumers)
      if (reg.producer != session_actor && consumer != session_actor) add(reg.producer, consumer);
}

// A depth-first search that begins with the predecessors nearest to `first`: a reader of an old version is often a
// direct predecessor of the writer.
bool ActorOrder::precedes(ActorId first, ActorId then) {
  const int search = ++searches_;
  std::vector<std::pair<ActorId, std::set<ActorId>::const_iterator>> path;
  auto enter = [&](ActorId a) {
    path.emplace_back(a, first < first_fetch_ ? predecessors_[a].lower_bound(first) : predecessors_[a].begin());
  };
  enter(then);
  while (!path.empty()) {
    auto& [at, next] = path.back();
    if (next == predecessors_[at].end()) {
      path.pop_back();
      continue;
    }
    const ActorId predecessor = *next++;
    if (predecessor == first) return true;
    if (std::exchange(visited_in_[predecessor], search) != search) enter(predecessor);
  }
  return false;
}

}  // namespace karez::passes
