// The simulator runs a plan in virtual time on one thread, with the ports and priority rule of the engine and seeded
// random delays.
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

// The resource that an act occupies while it runs: its worker (a kernel on the CPU), or only its stream (a timer, a
// device). Collectives occupy neither.
enum class Occupancy { worker, stream };

struct SimulationOptions {
  std::uint64_t seed = 1;
  int launches = 1;  // run one after the other
  int workers = 0;   // stream.worker is taken modulo this number; 0: all workers that the plan names
  Occupancy occupancy = Occupancy::worker;
  double delay = 0;  // maximum delay of a message between workers; each delay is random, and messages keep their order
  bool ordered_collectives = true;  // collectives wait for their turn

  // The duration of an act, by default 1. The time of a collective begins with the arrival of its last member.
  std::function<double(ActorId, std::int64_t act)> duration = nullptr;
  // Injects faults: called for each message, returns the number of times that it arrives (normally 1).
  std::function<int(const Message&)> inject_fault = nullptr;
};

struct SimulatedAct {
  ActorId actor;
  std::int64_t act = 0;  // number within the actor, from 0
  double begin = 0, end = 0;
  bool operator==(const SimulatedAct&) const = default;
};

struct SlotChange {
  RegisterId reg;
  int slot = 0;
  bool acquired = true;  // acquired by the producer; false: returned by the last consumer
};

struct Simulation {
  double makespan = 0;
  std::int64_t messages = 0;
  std::vector<SimulatedAct> acts;  // in the order of their ends

  // By worker: all events that the engine would record, at 1e9 ns per unit of time, with plan number 0.
  std::vector<EventLog> events;
  ById<RegisterId, int> peak_slots;  // the maximum number of slots in use at once
  std::vector<SlotChange> slots;     // in the order of time

  bool active(ActorId actor, double time) const;  // true if an act of the actor has begin <= time < end
};

// Throws on any violation of the protocol: a lost, doubled or misordered message, a slot written while it is read,
// tokens that were not returned at the end, and a deadlock (the error names the cycle of waiting actors).
Simulation simulate(const Plan& plan, const SimulationOptions& options = {});

// Returns for each device the maximum number of bytes of slots in use at once. Each byte counts once, even if slots of
// two registers share it because a call writes its output over its input. So the result never exceeds the size of the
// blocks.
ById<DeviceId, std::int64_t> peak_bytes(const Plan& plan, const Simulation& run);

}  // namespace karez::runtime
