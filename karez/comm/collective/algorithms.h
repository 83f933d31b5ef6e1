// Algorithms: writes the program of one member of a collective.
#pragma once

#include "karez/comm/collective/collective.h"
#include "karez/comm/collective/program.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

// `depth` is the maximum number of pending messages of a link. All posts of a round precede its awaits, so members
// cannot wait in a cycle.
Program make_program(const CollectiveSpec& spec, int depth);

}  // namespace karez::comm
