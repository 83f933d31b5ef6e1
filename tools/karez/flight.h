// What the ranks of a job wrote down when something failed, put together: who waited for whom, and who did what last.
#pragma once

#include <string>
#include <vector>

#include "karez/runtime/flight_record.h"
#include "tools/namespace.h"

namespace karez::tools {

std::vector<FlightRecord> read_flights(
    const std::string& folder);  // by rank; none, or damaged ones, are an error with the file's name

// A page for people. Clocks of several hosts are taken as they are.
std::string explain_flight(const std::vector<FlightRecord>& records);

}  // namespace karez::tools
