// The flight record of a rank after a failure: the error, the ranks that the rank waited for, and the last events of
// its workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/rank_state.h"

namespace karez::runtime {

struct FlightActor {
  int actor = 0;
  std::string name, where;
  bool operator==(const FlightActor&) const = default;
};

struct FlightPlan {
  int number = 0;  // number of the plan in the session
  std::string name;
  std::vector<FlightActor> actors;
  bool operator==(const FlightPlan&) const = default;
};

struct FlightRecord {
  int rank = 0, ranks = 1;
  std::string process;         // "alpha, process 4711"
  std::int64_t origin = 0;     // the time 0 of the events, in ns since 1970 by this host's clock
  std::int64_t failed_at = 0;  // time of the failure, on the time scale of events
  std::string failure;
  RankState state;  // just before the failure
  std::vector<FlightPlan> plans;
  std::vector<EventLog> workers;
};

}  // namespace karez::runtime
