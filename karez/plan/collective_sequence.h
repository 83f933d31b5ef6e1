// The rule of turns, which compiler, engine and simulator share: a device's collectives of one communicator begin one
// after another, in the order of the communicator's sequence, which starts again when the last collective has ended. A
// collective with several acts in a launch has a turn for each.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// The state of one device in one communicator's sequence.
//
//   sequence [a, b, c]   may begin: a | a runs: none | a ended: b | b ended: c | c ended: a
// c waits even if its ports are ready first: another device may be ready in another order, and the two would deadlock.
struct SequencePosition {
  CommunicatorId communicator;
  DeviceId device;
  std::vector<ActorId> order;  // by turn; an actor acts in order, so its next turn is that of its next act
  int turn = 0;                // the turn that is due or running
  bool running = false;

  ActorId due() const { return order[static_cast<std::size_t>(turn)]; }
  bool may_begin(ActorId actor) const { return !running && due() == actor; }
  void begin(ActorId actor);  // throws out of turn
  void end();
};

// All sequence positions of a plan. They share no state, so each may be used by its own thread.
class CollectiveSequence {
 public:
  explicit CollectiveSequence(const Plan& plan);

  bool may_begin(ActorId actor) const {  // true for an actor without a collective
    int at = position_number(actor);
    return at < 0 || positions_[static_cast<std::size_t>(at)].may_begin(actor);
  }
  SequencePosition& position(ActorId actor) { return positions_[static_cast<std::size_t>(position_number(actor))]; }
  const SequencePosition& position(ActorId actor) const {
    return positions_[static_cast<std::size_t>(position_number(actor))];
  }
  // The actors of this plan that take part in the same collective: same communicator, same turns. The actor itself is
  // one of them.
  const std::vector<ActorId>& members(ActorId actor) const {
    return groups_[static_cast<std::size_t>(group_number(actor))];
  }
  // A number for each such group, from 0.
  int group_number(ActorId actor) const { return group_of_[actor]; }
  int groups() const { return static_cast<int>(groups_.size()); }

 private:
  int position_number(ActorId actor) const { return position_of_[actor]; }

  std::vector<SequencePosition> positions_;
  std::vector<std::vector<ActorId>> groups_;
  ById<ActorId, int> position_of_, group_of_;  // -1: no collective
};

}  // namespace karez::plan
