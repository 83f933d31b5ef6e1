// Who waits for whom: waits of ports as text, and a circle among them.
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
    if (!ports.wants(o) || ports.free_slots(o) > 0) continue;
    for (ActorId consumer : plan.reg(ports.output_register(o)).consumers)
      waits.push_back({actor, consumer, cat("a free slot of r", ports.output_register(o))});
  }
  return waits;
}

bool at_rest(const Ports& ports) {
  if (ports.running()) return false;
  for (int i = 0; i < ports.input_count(); ++i)
    if (ports.filled(i) > 0) return false;
  for (int o = 0; o < ports.output_count(); ++o)
    if (!ports.wants(o)) return false;
  return true;
}

std::string print(const Plan& plan, std::span<const Wait> waits) {
  std::string text;
  for (const Wait& wait : waits)
    text += cat(actor_name(plan, wait.who), " waits for ", wait.what, " by ", actor_name(plan, wait.whom), "\n");
  return text;
}

std::string circle_of(const Plan& plan, std::span<const Wait> waits) {
  std::multimap<ActorId, const Wait*> from;
  for (const Wait& wait : waits) from.emplace(wait.who, &wait);
  // Depth first; `way` is the chain of waits that led here.
  std::set<ActorId> finished;
  std::vector<const Wait*> way;
  std::string found;
  std::function<bool(ActorId)> visit = [&](ActorId actor) {
    for (std::size_t i = 0; i < way.size(); ++i) {
      if (way[i]->who != actor) continue;
      for (; i < way.size(); ++i) found += cat(actor_name(plan, way[i]->who), " waits for ", way[i]->what, " -> ");
      found += actor_name(plan, actor);
      return true;
    }
    if (!finished.insert(actor).second) return false;
    auto [begin, end] = from.equal_range(actor);
    for (auto at = begin; at != end; ++at) {
      way.push_back(at->second);
      if (visit(at->second->whom)) return true;
      way.pop_back();
    }
    return false;
  };
  for (const Wait& wait : waits)
    if (visit(wait.who)) break;
  return found;
}

}  // namespace karez::plan
