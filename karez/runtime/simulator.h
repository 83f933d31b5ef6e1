// The simulator: a plan run in virtual time on one thread, with the same ports and picking rule as the engine and
// seeded chance for the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/plan/ports.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// What an act occupies while it lasts: its worker (a kernel on the cpu), or its stream alone (a timer, a device).
// Collectives hold neither.
enum class Occupancy { worker, stream };

struct SimulationOptions {
  std::uint64_t seed = 1;
  int launches = 1;  // one after the other
  int workers = 0;   // streams are dealt to stream.worker modulo this; 0: as many as the plan names
  Occupancy occupancy = Occupancy::worker;
  double delay = 0;  // of a message between workers: drawn from [0, delay), in order between any two workers
  bool ordered_collectives = true;  // collectives wait for their turn
  std::function<double(ActorId, std::int64_t act)> duration =
      nullptr;  // default 1; of a collective: from the arrival of its last member
  // For planted faults: sees each message on its way and says how often it arrives (1 as it should).
  std::function<int(const Message&)> inject_fault = nullptr;
};

struct SimulatedAct {
  ActorId actor;
  std::int64_t act = 0;  // of this actor, from 0
  double begin = 0, end = 0;
  bool operator==(const SimulatedAct&) const = default;
};

struct SlotChange {
  RegisterId reg;
  int slot = 0;
  bool acquired = true;  // by its producer; false: given back by its last consumer
};

struct Simulation {
  double makespan = 0;
  std::int64_t messages = 0;
  std::vector<SimulatedAct> acts;  // as they ended
  std::vector<EventLog>
      events;  // by worker: all that an engine's rings would hold; 1e9 to a unit of time, the plan's number 0
  ById<RegisterId, int> peak_slots;  // slots that were in use at once
  std::vector<SlotChange> slots;     // in the order of their times

  bool active(ActorId actor, double time) const;  // acting in [begin, end) at that time
};

// Throws on whatever must never happen: a message lost, doubled or out of turn, a slot written while somebody reads it,
// tokens that are not all home at the end, and a deadlock (the circle of those who wait for each other is named).
Simulation simulate(const Plan& plan, const SimulationOptions& options = {});

// By device, the most bytes of its blocks that were slots in use at once: each byte counts once, also where a call
// writes its output over its input and two registers' slots are the same bytes. So it is never more than the blocks
// take.
ById<DeviceId, std::int64_t> peak_bytes(const Plan& plan, const Simulation& run);

}  // namespace karez::runtime
