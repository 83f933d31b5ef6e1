// Writes flight records to files as text, which `karez flight` reads.
#pragma once

#include <string>
#include <string_view>

#include "karez/control/namespace.h"
#include "karez/runtime/flight_record.h"

namespace karez::control {

std::string print(const FlightRecord& record);
// Throws Error (kind data), with the line, if the text is not a record.
FlightRecord parse_flight_record(std::string_view text);

// Creates the folder if needed. Writes the file completely or not at all. Throws Error (kind data).
void write_flight_record(const std::string& folder, const FlightRecord& record);
std::string flight_record_path(const std::string& folder, int rank);  // "folder/rank3.flight"

}  // namespace karez::control
