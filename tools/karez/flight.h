// Reads and merges the flight records of a job that failed.
#pragma once

#include <string>
#include <vector>

#include "karez/runtime/flight_record.h"
#include "tools/namespace.h"

namespace karez::tools {

// Returns the records in the folder, sorted by rank. Throws Error (kind data) if there is no record, or a damaged one.
std::vector<FlightRecord> read_flights(const std::string& folder);

// Describes the waits between ranks, their cause, and the last events of each worker. Differences between the clocks of
// the hosts are not corrected.
std::string explain_flight(const std::vector<FlightRecord>& records);

}  // namespace karez::tools
