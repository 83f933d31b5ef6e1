// Adds the costs of mesh axes to a cost table, depending on the kind of link between ranks.
#pragma once

#include <string>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/graph/graph.h"
#include "karez/sbp/cost.h"

namespace karez {

// The host of each rank, and the kind of link if one is forced; the same on every rank.
struct RankTopology {
  std::vector<int> hosts = {0};  // by rank: a number for each host
  std::string link = {};         // "shm", "tcp" or "ucx" if one is forced, otherwise ""
  bool operator==(const RankTopology&) const = default;
};

// Adds an entry for every axis that has none, and returns the table. The new entry is a copy of another entry:
//   @tcp    if the devices along the axis are on several hosts, or on several ranks if tcp is forced
//   @local  if these devices are all on one rank, and the table has this entry
//   @shm    otherwise
// No entry is added if the table lacks the entry to copy. If axes with the same name differ, the slowest class is used.
// The axis between placements ("stage") uses the slowest class between any two ranks.
CostTable with_class_costs(CostTable costs, const std::vector<Mesh>& meshes, const RankTopology& topology);

}  // namespace karez
