// Finds the rank of this process, in the options of its world or in the settings of a launcher.
#pragma once

#include "karez/api/world_options.h"
#include "karez/comm/rendezvous/launcher.h"

namespace karez {

// Returns the ranks of the options, otherwise those of the launcher; an error if the two contradict each other.
comm::JobLaunch find_launch(const WorldOptions& options);

// Returns the number of worlds that this rank has already made with the launch's store. The n-th world of a rank joins
// the n-th worlds of the other ranks, because worlds have no other common identifier. One process may have several
// ranks (in tests).
int next_world(const comm::JobLaunch& launch);

}  // namespace karez
