// What the links of a program's meshes cost, by the class of link that joins their ranks.
#pragma once

#include <string>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/graph/graph.h"
#include "karez/sbp/cost.h"

namespace karez {

// Where ranks are, and by what they are linked: the same on every rank.
struct RankTopology {
  std::vector<int> hosts = {0};  // by rank: a number for each host
  std::string link = {};         // "shm", "tcp" or "ucx" where one is forced, else ""
  bool operator==(const RankTopology&) const = default;
};

// The table with an entry for every axis that has none: that of `@tcp` where the devices along it lie on several hosts
// (or ranks, where tcp is forced), that of `@local` where they are all of one rank, if there is one, else that of
// `@shm`, as far as the table has such an entry. Where axes of one name lie differently, the farthest counts; between
// placements ("stage") that between any two of all ranks.
CostTable with_class_costs(CostTable costs, const std::vector<Mesh>& meshes, const RankTopology& topology);

}  // namespace karez
