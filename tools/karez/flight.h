// Reads and merges the flight records of a job that failed.
#pragma once

#include <string>
#include <vector>

#include "karez/runtime/flight_record.h"
#include "tools/namespace.h"

namespace karez::tools {

std::vector<FlightRecord> read_flights(const std::string& folder);  // by rank; no record, or a damaged one, is an error

// The waits between ranks, their cause, and the last events of each worker. Clocks of hosts are not corrected.
std::string explain_flight(const std::vector<FlightRecord>& records);

}  // namespace karez::tools
