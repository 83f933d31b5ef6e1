// Derives edges between acts from the registers and communicators of a plan.
#include "karez/passes/lowering/happens_before.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "karez/plan/acts.h"

namespace karez::passes {

HappensBefore::HappensBefore(const Plan& plan)
    : plan_(plan),
      acts_(acts_per_launch(plan)),
      in_step_(registers_in_step()),
      reachability_(static_cast<int>(plan.actors.size()) + 2, edges()) {}

ById<RegisterId, bool> HappensBefore::registers_in_step() const {
  ById<RegisterId, bool> in_step(plan_.registers.size(), true);
  for (ActorId a : plan_.actors.ids())
    for (const Port& port : plan_.actors[a].outputs)
      if (port.period != 1) in_step[port.reg] = false;
  for (RegisterId id : plan_.registers.ids()) {
    const Register& r = plan_.registers[id];
    if (std::any_of(r.consumers.begin(), r.consumers.end(), [&](ActorId c) { return acts(c) != acts(r.producer); }))
      in_step[id] = false;
  }
  return in_step;
}

std::vector<solve::TokenEdge> HappensBefore::edges() const {
  const int start_node = static_cast<int>(plan_.actors.size()), done_node = start_node + 1;
  std::vector<solve::TokenEdge> edges;
  for (RegisterId id : plan_.registers.ids()) {
    if (!is_in_step(id)) continue;
    const Register& r = plan_.registers[id];
    const int from = r.producer == session_actor ? start_node : r.producer.index;
    for (ActorId c : r.consumers) {
      const int to = c == session_actor ? done_node : c.index;
      edges.push_back({from, to, 0});
      edges.push_back({to, from, r.slots});
    }
  }
  add_turns(edges);
  return edges;
}

// Adds edges between the collectives of one communicator and device that act equally often, if their turns have this
// order: from act k of a collective to act k of the next one, and to act k + 1 of an earlier one.
void HappensBefore::add_turns(std::vector<solve::TokenEdge>& edges) const {
  std::map<std::tuple<CommunicatorId, DeviceId, std::int64_t>, std::map<int, ActorId>> sequences;  // by first turn
  for (ActorId a : plan_.actors.ids())
    if (const auto& c = plan_.actors[a].collective)
      sequences[{c->communicator, plan_.stream(plan_.actors[a].stream).device, acts_[a]}][c->turns[0]] = a;
  // True if every act k of `from` has an earlier turn than act k + offset of `to`.
  auto precedes = [&](ActorId from, ActorId to, std::size_t offset) {
    const auto &from_turns = plan_.actor(from).collective->turns, &to_turns = plan_.actor(to).collective->turns;
    for (std::size_t k = 0; k + offset < to_turns.size(); ++k)
      if (from_turns[k] >= to_turns[k + offset]) return false;
    return true;
  };
  for (const auto& [key, sequence] : sequences)
    for (auto at = sequence.begin(); at != sequence.end(); ++at) {
      if (auto next = std::next(at); next != sequence.end() && precedes(at->second, next->second, 0))
        edges.push_back({at->second.index, next->second.index, 0});
      for (auto last = sequence.rbegin(); last->first > at->first; ++last) {
        if (!precedes(last->second, at->second, 1)) continue;
        edges.push_back({last->second.index, at->second.index, 1});
        break;
      }
    }
}

}  // namespace karez::passes
