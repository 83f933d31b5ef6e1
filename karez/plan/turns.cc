// The rule of turns: seats and meetings as a plan gives them.
#include "karez/plan/turns.h"

#include <map>
#include <utility>

namespace karez::plan {

void Seat::begin(ActorId actor) {
  require(may_begin(actor), "actor ", actor, " begins out of turn: communicator ", communicator, " is at turn ", turn,
          ", which is of actor ", due(), running ? " and runs" : "");
  running = true;
}

void Seat::end() {
  require(running, "communicator ", communicator, ": turn ", turn, " ends, but was never begun");
  running = false;
  if (++turn == static_cast<int>(order.size())) turn = 0;
}

Turns::Turns(const Plan& plan) : seat_of_(plan.actors.size(), -1), meeting_of_(plan.actors.size(), -1) {
  std::map<std::pair<CommunicatorId, DeviceId>, int> seats;
  std::map<std::pair<CommunicatorId, int>, int> meetings;
  for (ActorId i : plan.actors.ids()) {
    const Actor& actor = plan.actors[i];
    if (!actor.collective) continue;
    const Collective& c = *actor.collective;
    DeviceId device = plan.stream(actor.stream).device;
    auto [seat, first_there] = seats.emplace(std::pair{c.communicator, device}, static_cast<int>(seats_.size()));
    if (first_there) seats_.push_back({c.communicator, device, {}});
    std::vector<ActorId>& order = seats_[static_cast<std::size_t>(seat->second)].order;
    require(!c.turns.empty(), "actor ", i, " '", actor.name, "' has no turn of communicator ", c.communicator);
    for (std::size_t act = 0; act < c.turns.size(); ++act) {
      const int turn = c.turns[act];
      require(turn >= 0, "actor ", i, " '", actor.name, "' has turn ", turn, " of communicator ", c.communicator);
      require(act == 0 || c.turns[act - 1] < turn, "actor ", i, " '", actor.name, "' has turn ", turn,
              " of communicator ", c.communicator, " after turn ", act == 0 ? 0 : c.turns[act - 1]);
      if (order.size() <= static_cast<std::size_t>(turn)) order.resize(static_cast<std::size_t>(turn) + 1);
      order[static_cast<std::size_t>(turn)] = i;
    }
    auto [meeting, first_here] =
        meetings.emplace(std::pair{c.communicator, c.turns[0]}, static_cast<int>(meetings_.size()));
    if (first_here) meetings_.emplace_back();
    meetings_[static_cast<std::size_t>(meeting->second)].emplace_back(i);
    seat_of_[i] = seat->second;
    meeting_of_[i] = meeting->second;
  }
  for (const Seat& seat : seats_)
    for (std::size_t turn = 0; turn < seat.order.size(); ++turn)
      require(seat.order[turn].valid(), "communicator ", seat.communicator, ": device ", seat.device,
              " has no collective at turn ", turn);
}

}  // namespace karez::plan
