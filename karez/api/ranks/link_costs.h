// Adds costs of mesh axes to a cost table, by the class of the links between ranks.
#pragma once

#include <string>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/graph/graph.h"
#include "karez/sbp/cost.h"

namespace karez {

// The host of each rank and the forced kind of link; equal on every rank.
struct RankTopology {
  std::vector<int> hosts = {0};  // by rank: a number for each host
  std::string link = {};         // "shm", "tcp" or "ucx" if one is forced, otherwise ""
  bool operator==(const RankTopology&) const = default;
};

// Returns the table with an added entry for every axis without an entry. The new entry equals that of `@tcp` if the
// devices along the axis are on several hosts (or ranks, if tcp is forced), that of `@local` if they are all on one
// rank and the table has such an entry, otherwise that of `@shm`, if the table has it. If axes with the same name
// differ, the slowest class is used; the axis between placements ("stage") uses the slowest class between any two
// ranks.
CostTable with_class_costs(CostTable costs, const std::vector<Mesh>& meshes, const RankTopology& topology);

}  // namespace karez
