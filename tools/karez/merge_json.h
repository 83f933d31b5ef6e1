// Merges the traces of several ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

// Merges the contents of trace files, given with their names, into one trace on one clock: that of each host, from the
// origins in the files. Differences between the clocks of hosts are not corrected. If two files have events of one
// process, such as of two worlds of a rank, those of the second get another number. Throws Error (kind data) if a file
// is not a trace with an origin.
std::string merge_traces(const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace karez::tools
