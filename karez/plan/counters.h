// Counters of a session, incremented where the events happen and compared with the numbers that plans predict.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "karez/plan/namespace.h"

namespace karez::plan {

// Counts since the session began. They are exact whenever no launch is in flight.
struct Counters {
  std::int64_t launches = 0;
  std::int64_t acts = 0;
  std::int64_t messages = 0;                       // both kinds, including those of start and done registers
  std::map<std::string, std::int64_t> sent_bytes;  // by kind of collective, counted at the copy
  std::map<std::string, std::int64_t> peak_bytes;  // by device ("0.1"): blocks and variables
  std::map<std::string, std::int64_t> held_bytes;  // by device: of the arrays that exist now
  int workers = 0;
};

}  // namespace karez::plan
