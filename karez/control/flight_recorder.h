// Writes flight records to text files, which `karez flight` reads.
#pragma once

#include <string>
#include <string_view>

#include "karez/control/namespace.h"
#include "karez/runtime/flight_record.h"

namespace karez::control {

std::string print(const FlightRecord& record);
// If the text is not a valid record, throws an Error (kind data) that names the line.
FlightRecord parse_flight_record(std::string_view text);

// Creates the folder if it does not exist, and writes the file completely or not at all. Throws an Error (kind data) on
// failure.
void write_flight_record(const std::string& folder, const FlightRecord& record);
std::string flight_record_path(const std::string& folder, int rank);  // "folder/rank3.flight"

}  // namespace karez::control
