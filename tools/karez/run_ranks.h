// Starts the ranks of a job on this host; environment variables give each rank its number.
#pragma once

#include <string>

#include "tools/karez/rank_group.h"
#include "tools/karez/run_frames.h"
#include "tools/namespace.h"

namespace karez::tools {

// Changes the working directory of this process to the job's folder, if the job has one. Throws Error if a rank cannot
// start.
void start_ranks(RankGroup& group, const RunJob& job);
std::string name_of_rank(const RankGroup& group, int rank);  // "rank 2 (alpha, process 4711)"
std::string host_name();                                     // "alpha"

}  // namespace karez::tools
