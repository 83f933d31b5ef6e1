// Checks the turns of collectives, and that their members agree.
#include "karez/plan/verify_sequences.h"

#include <map>
#include <utility>

#include "karez/base/text.h"
#include "karez/plan/item_names.h"

namespace karez::plan {
namespace {

// "all_reduce sum", "all_gather"
std::string collective_text(const Collective& c) { return cat(c.kind, c.reduce ? cat(" ", name_of(*c.reduce)) : ""); }

}  // namespace

void verify_sequences(const Plan& plan) {
  std::map<std::pair<CommunicatorId, DeviceId>, std::map<int, ActorId>> turns;
  std::map<std::pair<CommunicatorId, int>, const Collective*> first;
  for (ActorId i : plan.actors.ids()) {
    if (!plan.actors[i].collective) continue;
    const Collective& c = *plan.actors[i].collective;
    for (int turn : c.turns) {
      auto [at, is_new] = turns[{c.communicator, plan.stream(plan.actors[i].stream).device}].emplace(turn, i);
      if (!is_new)
        fail(name_of_actor(plan, i),
             at->second == i ? " has turn " : cat(" and ", name_of_actor(plan, at->second), " both have turn "), turn,
             " of communicator ", c.communicator, at->second == i ? " twice" : "");
      auto [first_use, is_first] = first.emplace(std::pair{c.communicator, turn}, &c);
      if (!is_first && (first_use->second->kind != c.kind || first_use->second->reduce != c.reduce))
        fail(name_of_actor(plan, i), ": turn ", turn, " of communicator ", c.communicator, " is ", collective_text(c),
             " here, but ", collective_text(*first_use->second), " for another member");
      if (!is_first && first_use->second->algorithm != c.algorithm)
        fail(name_of_actor(plan, i), ": turn ", turn, " of communicator ", c.communicator, " uses algorithm ",
             c.algorithm, " here, but ", first_use->second->algorithm, " for another member");
      if (!is_first && c.kind == CollectiveKind::all_reduce && first_use->second->in.view.type() != c.in.view.type())
        fail(name_of_actor(plan, i), ": turn ", turn, " of communicator ", c.communicator, " has type ", c.in.view,
             " here, but ", first_use->second->in.view, " for another member");
      if (!is_first && first_use->second->turns != c.turns)
        fail(name_of_actor(plan, i), ": at turn ", turn, " of communicator ", c.communicator,
             ", this member has turns ", join(c.turns, ", "), ", but another member has turns ",
             join(first_use->second->turns, ", "));
    }
  }
  for (CommunicatorId c : plan.communicators.ids()) {
    const Communicator& group = plan.communicators[c];
    require(!group.members.empty() && group.chunk > 0, "communicator ", c,
            " needs at least one member and a positive chunk, but has ", group.members.size(),
            group.members.size() == 1 ? " member" : " members", " and a chunk of ", group.chunk, " bytes");
    for (std::size_t m = 0; m < group.members.size(); ++m)
      require(std::find(group.members.begin() + static_cast<std::ptrdiff_t>(m) + 1, group.members.end(),
                        group.members[m]) == group.members.end(),
              "communicator ", c, ": device ", group.members[m].rank, ".", group.members[m].device, " is listed twice");
    for (DeviceId d : plan.devices.ids()) {
      if (std::find(group.members.begin(), group.members.end(), plan.devices[d]) == group.members.end()) continue;
      std::size_t count = turns[{c, d}].size();
      require(count == group.sequence.size(), "communicator ", c, ": its sequence has ", group.sequence.size(),
              " turns, but device ", plan.devices[d].rank, ".", plan.devices[d].device, " has collectives for ", count);
    }
  }
}

}  // namespace karez::plan
