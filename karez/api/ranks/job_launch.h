// Finds the rank of this process in the options of its world or in the settings of a launcher.
#pragma once

#include "karez/api/world_options.h"
#include "karez/comm/rendezvous/launcher.h"

namespace karez {

// Returns the rank, the number of ranks and the rendezvous that WorldOptions::ranks gives if it is set, otherwise those
// that the launcher gave. Throws if the two contradict each other.
comm::JobLaunch find_launch(const WorldOptions& options);

// Returns the number of worlds that this rank has already made with the store of `launch`, and adds one to it. Worlds
// have no other common identifier, so the n-th world of a rank joins the n-th worlds of the other ranks. In tests, one
// process may have several ranks.
int next_world(const comm::JobLaunch& launch);

}  // namespace karez
