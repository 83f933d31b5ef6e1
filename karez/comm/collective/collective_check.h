// Collective check: the conditions that a collective must meet.
#pragma once

#include "karez/comm/collective/collective.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

// Throws if the spec cannot run: if the member is out of range, boxes are missing or outside their view, there is no
// reduce function, or a view must be dense and is not.
void check(const CollectiveSpec& spec);

}  // namespace karez::comm
