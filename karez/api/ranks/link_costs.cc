// Finds the link tier (local, shm or tcp) of each mesh axis, and copies the costs of the tier to the axis.
#include "karez/api/ranks/link_costs.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/sbp/transfer.h"

namespace karez {
namespace {

const LinkCost* find_link(const CostTable& costs, std::string_view name) {
  for (const auto& [axis, cost] : costs.axis_links)
    if (axis == name) return &cost;
  return nullptr;
}

enum class LinkTier { local, shm, tcp };  // fastest first
constexpr std::string_view name_of(LinkTier tier) {
  return tier == LinkTier::local ? "local" : tier == LinkTier::shm ? "shm" : "tcp";
}

LinkTier tier_between(const RankTopology& topology, int a, int b) {
  if (a == b) return LinkTier::local;
  const bool uses_tcp = topology.link == "tcp" || topology.hosts.at(static_cast<std::size_t>(a)) !=
                                                      topology.hosts.at(static_cast<std::size_t>(b));
  return uses_tcp ? LinkTier::tcp : LinkTier::shm;
}

// Returns the slowest tier between devices that differ only in their position along the axis.
LinkTier slowest_tier(const Mesh& mesh, int axis, const RankTopology& topology) {
  int stride = 1;
  for (int inner = axis + 1; inner < mesh.rank(); ++inner) stride *= mesh.axes[static_cast<std::size_t>(inner)].size;
  const int size = mesh.axes[static_cast<std::size_t>(axis)].size;
  LinkTier slowest = LinkTier::local;
  for (int position = 0; position < mesh.size(); ++position) {
    const int next = position / stride % size + 1 < size ? position + stride : position;
    slowest = std::max(slowest, tier_between(topology, mesh.devices[static_cast<std::size_t>(position)].rank,
                                             mesh.devices[static_cast<std::size_t>(next)].rank));
  }
  return slowest;
}

}  // namespace

CostTable with_class_costs(CostTable costs, const std::vector<Mesh>& meshes, const RankTopology& topology) {
  std::map<std::string, LinkTier> tiers;
  for (const Mesh& mesh : meshes)
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      LinkTier& tier = tiers.emplace(mesh.axes[static_cast<std::size_t>(axis)].name, LinkTier::local).first->second;
      tier = std::max(tier, slowest_tier(mesh, axis, topology));
    }
  if (meshes.size() > 1) {  // adds the axis between placements
    std::set<int> ranks;
    for (const Mesh& mesh : meshes)
      for (DeviceName device : mesh.devices) ranks.insert(device.rank);
    LinkTier& tier = tiers.emplace(std::string(sbp::placements_axis), LinkTier::local).first->second;
    for (int a : ranks)
      for (int b : ranks) tier = std::max(tier, tier_between(topology, a, b));
  }
  CostTable out = costs;
  for (const auto& [axis, tier] : tiers) {
    const LinkCost* cost = find_link(costs, name_of(tier));
    if (cost == nullptr && tier == LinkTier::local) cost = find_link(costs, name_of(LinkTier::shm));
    if (cost != nullptr && find_link(costs, axis) == nullptr) out.axis_links.emplace_back(axis, *cost);
  }
  return out;
}

}  // namespace karez
