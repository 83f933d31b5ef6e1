// Reports the stalls of a stream (stall_monitor.h).
#pragma once

#include <cstdint>
#include <string>

#include "karez/data/stages/stage_report.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/stages/served_stream.h"

namespace karez::runtime {

// These need the mutex of the DataThreads.

// Counts the stall of a read that has ended now, when the session had made this many launches. Returns a warning if a
// stage makes devices wait again and again; a stage is named once until the data set has recovered.
std::string note_read(ServedStream& stream, std::int64_t now, std::int64_t stall, std::int64_t launches);

// A line about the stalls since the first element, with the stage that limits the stream if they are long; "" before
// the first element.
std::string stalls_text(const ServedStream& stream, const StreamReport& report, double seconds_per_tick,
                        std::int64_t now);

}  // namespace karez::runtime
