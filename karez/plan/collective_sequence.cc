// Builds the sequence positions and the groups of a plan's collectives.
#include "karez/plan/collective_sequence.h"

#include <map>
#include <utility>

namespace karez::plan {

void SequencePosition::begin(ActorId actor) {
  require(may_begin(actor), "actor ", actor, " begins out of turn: communicator ", communicator, " is at turn ", turn,
          ", which belongs to actor ", due(), running ? " and is running" : "");
  running = true;
}

void SequencePosition::end() {
  require(running, "communicator ", communicator, ": turn ", turn, " ends, but has not begun");
  running = false;
  if (++turn == static_cast<int>(order.size())) turn = 0;
}

CollectiveSequence::CollectiveSequence(const Plan& plan)
    : position_of_(plan.actors.size(), -1),
      group_of_(plan.actors.size(), -1) {
  std::map<std::pair<CommunicatorId, DeviceId>, int> positions;
  std::map<std::pair<CommunicatorId, int>, int> groups;
  for (ActorId i : plan.actors.ids()) {
    const Actor& actor = plan.actors[i];
    if (!actor.collective) continue;
    const Collective& c = *actor.collective;
    DeviceId device = plan.stream(actor.stream).device;
    auto [position, new_position] =
        positions.emplace(std::pair{c.communicator, device}, static_cast<int>(positions_.size()));
    if (new_position) positions_.push_back({c.communicator, device, {}});
    std::vector<ActorId>& order = positions_[static_cast<std::size_t>(position->second)].order;
    require(!c.turns.empty(), "actor ", i, " '", actor.name, "' has no turn in the sequence of communicator ",
            c.communicator);
    for (std::size_t act = 0; act < c.turns.size(); ++act) {
      const int turn = c.turns[act];
      require(turn >= 0, "actor ", i, " '", actor.name, "' has the negative turn ", turn,
              " in the sequence of communicator ", c.communicator);
      require(act == 0 || c.turns[act - 1] < turn, "actor ", i, " '", actor.name, "' has turn ", turn,
              " of communicator ", c.communicator, " after turn ", act == 0 ? 0 : c.turns[act - 1],
              "; turns must increase");
      if (order.size() <= static_cast<std::size_t>(turn)) order.resize(static_cast<std::size_t>(turn) + 1);
      order[static_cast<std::size_t>(turn)] = i;
    }
    auto [group, new_group] = groups.emplace(std::pair{c.communicator, c.turns[0]}, static_cast<int>(groups_.size()));
    if (new_group) groups_.emplace_back();
    groups_[static_cast<std::size_t>(group->second)].emplace_back(i);
    position_of_[i] = position->second;
    group_of_[i] = group->second;
  }
  for (const SequencePosition& position : positions_)
    for (std::size_t turn = 0; turn < position.order.size(); ++turn)
      require(position.order[turn].valid(), "communicator ", position.communicator, ": device ", position.device,
              " has no collective at turn ", turn);
}

}  // namespace karez::plan
