// Finds the waits of an actor, prints waits, and finds a cycle among them.
#include "karez/plan/waits.h"

#include <map>
#include <set>

namespace karez::plan {

std::string actor_name(const Plan& plan, ActorId actor) {
  return actor == session_actor ? "the session" : cat("a", actor.index, " '", plan.actor(actor).name, "'");
}

std::vector<Wait> waits_of(const Plan& plan, ActorId actor, const Ports& ports) {
  std::vector<Wait> waits;
  if (ports.ready() || ports.running()) return waits;
  for (int i = 0; i < ports.input_count(); ++i)
    if (ports.filled(i) == 0)
      waits.push_back({actor, ports.producer(i), cat("r", ports.input_register(i), " to be filled")});
  for (int o = 0; o < ports.output_count(); ++o) {
    if (!ports.needs_free_slot(o) || ports.free_slots(o) > 0) continue;
    for (ActorId consumer : plan.reg(ports.output_register(o)).consumers)
      waits.push_back({actor, consumer, cat("a free slot of r", ports.output_register(o))});
  }
  return waits;
}

bool is_idle(const Ports& ports) {
  if (ports.running()) return false;
  for (int i = 0; i < ports.input_count(); ++i)
    if (ports.filled(i) > 0) return false;
  for (int o = 0; o < ports.output_count(); ++o)
    if (!ports.needs_free_slot(o)) return false;
  return true;
}

std::string print(const Plan& plan, std::span<const Wait> waits) {
  std::string text;
  for (const Wait& wait : waits)
    text += cat(actor_name(plan, wait.waiter), " waits for ", wait.what, " by ", actor_name(plan, wait.awaited), "\n");
  return text;
}

std::string cycle_text(const Plan& plan, std::span<const Wait> waits) {
  std::multimap<ActorId, const Wait*> waits_by_actor;
  for (const Wait& wait : waits) waits_by_actor.emplace(wait.waiter, &wait);
  // A depth-first search; `path` is the chain of waits to the current actor.
  std::set<ActorId> finished;
  std::vector<const Wait*> path;
  std::string cycle_found;
  std::function<bool(ActorId)> visit = [&](ActorId actor) {
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i]->waiter != actor) continue;
      for (; i < path.size(); ++i)
        cycle_found += cat(actor_name(plan, path[i]->waiter), " waits for ", path[i]->what, " -> ");
      cycle_found += actor_name(plan, actor);
      return true;
    }
    if (!finished.insert(actor).second) return false;
    auto [begin, end] = waits_by_actor.equal_range(actor);
    for (auto at = begin; at != end; ++at) {
      path.push_back(at->second);
      if (visit(at->second->awaited)) return true;
      path.pop_back();
    }
    return false;
  };
  for (const Wait& wait : waits)
    if (visit(wait.waiter)) break;
  return cycle_found;
}

}  // namespace karez::plan
