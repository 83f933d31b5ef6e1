// Chooses the cost table of a world.
#pragma once

#include "karez/api/namespace.h"
#include "karez/api/world_options.h"

namespace karez {

// Returns the table that the options or KAREZ_COSTS select. Without them: on rank 0 the table that `karez doctor
// --kernels --save` has saved, otherwise the one that is shipped for this processor, otherwise the default table. Rank
// 0's table is used by all ranks. The origin of the table names the file. A saved table that cannot be used is reported
// by a warning and in the origin.
CostTable costs_of(const WorldOptions& options, int rank);

}  // namespace karez
