// The simulator runs a plan in virtual time on one thread. It uses the engine's ports and priority rule, and random
// message delays from a seed.
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
  int launches = 1;  // the number of launches, which run one after the other
  int workers = 0;   // stream.worker is taken modulo this number; 0: all workers that the plan names
  Occupancy occupancy = Occupancy::worker;
  double delay = 0;  // maximum delay of a message between workers; each delay is random, and messages keep their order
  bool ordered_collectives = true;  // collectives wait for their turn

  // The duration of an act; 1 if null. The duration of a collective counts from the arrival of its last member.
  std::function<double(ActorId, std::int64_t act)> duration = nullptr;
  // Injects faults: called for each message; returns how many times the message arrives (1 without a fault).
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
  bool acquired = true;  // true: the producer acquired the slot; false: the last consumer returned it
};

struct Simulation {
  double makespan = 0;
  std::int64_t messages = 0;
  std::vector<SimulatedAct> acts;  // sorted by end

  // By worker: all events that the engine would record, at 1e9 ns per unit of time, with plan number 0.
  std::vector<EventLog> events;
  ById<RegisterId, int> peak_slots;  // the maximum number of slots in use at the same time
  std::vector<SlotChange> slots;     // sorted by time
};

// Throws on any violation of the protocol: a lost, duplicate or misordered message, a slot that is written while it is
// read, a token that is not returned at the end, or a deadlock. The error of a deadlock names the cycle of waiting
// actors.
Simulation simulate(const Plan& plan, const SimulationOptions& options = {});

// Returns, for each device, the maximum number of bytes of slots that are in use at the same time. A byte counts once
// even if slots of two registers share it, as when a call overwrites its input with its output. So the result never
// exceeds the size of the blocks.
ById<DeviceId, std::int64_t> peak_bytes(const Plan& plan, const Simulation& run);

}  // namespace karez::runtime
