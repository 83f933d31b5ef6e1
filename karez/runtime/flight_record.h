// The flight record, which a rank writes after a failure: the error, the ranks that it waited for, and its workers'
// last events. `karez flight` reads the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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
  int number = 0;  // in the session
  std::string name;
  std::vector<FlightActor> actors;
  bool operator==(const FlightPlan&) const = default;
};

struct FlightRecord {
  int rank = 0, ranks = 1;
  std::string who;             // "alpha, process 4711"
  std::int64_t origin = 0;     // ns since 1970 by this host's clock at which the time of events is 0
  std::int64_t failed_at = 0;  // on the time scale of events
  std::string failure;
  RankState state;  // just before the failure
  std::vector<FlightPlan> plans;
  std::vector<EventLog> workers;
};

std::string print(const FlightRecord& record);
// Throws Error (kind data), with the line, if the text is not a record.
FlightRecord parse_flight_record(std::string_view text);

// Creates the folder if needed. Writes the whole file or none. Throws Error (kind data).
void write_flight_record(const std::string& folder, const FlightRecord& record);
std::string flight_record_path(const std::string& folder, int rank);  // "folder/rank3.flight"

}  // namespace karez::runtime
