// The rule of turns, which compiler, engine and simulator share. On each device, the collectives of a communicator run
// one after another, in the order of the communicator's sequence. When the last one has ended, the sequence starts
// again. A collective with several acts in a launch has a turn for each act.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// The state of one device in one communicator's sequence.
//
//   sequence [a, b, c]   may begin: a | a runs: none | a ended: b | b ended: c | c ended: a
// c waits even if its ports are ready first: on another device the ports may become ready in another order, and the two
// devices would deadlock.
struct SequencePosition {
  CommunicatorId communicator;
  DeviceId device;
  std::vector<ActorId> order;  // by turn; an actor appears once for each of its acts
  int turn = 0;                // the turn that is due or running
  bool running = false;

  ActorId due() const { return order[static_cast<std::size_t>(turn)]; }
  bool may_begin(ActorId actor) const { return !running && due() == actor; }
  void begin(ActorId actor);  // throws if it is not the actor's turn
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
  // Returns the actors of this plan that take part in the same collective, including the given one. They have the same
  // communicator and the same turns.
  const std::vector<ActorId>& members(ActorId actor) const {
    return groups_[static_cast<std::size_t>(group_number(actor))];
  }
  // Returns the number of the actor's group; groups are numbered from 0.
  int group_number(ActorId actor) const { return group_of_[actor]; }
  int groups() const { return static_cast<int>(groups_.size()); }

 private:
  int position_number(ActorId actor) const { return position_of_[actor]; }

  std::vector<SequencePosition> positions_;
  std::vector<std::vector<ActorId>> groups_;
  ById<ActorId, int> position_of_, group_of_;  // -1: no collective
};

}  // namespace karez::plan
