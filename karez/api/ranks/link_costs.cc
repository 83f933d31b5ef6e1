// Finds the link class of each mesh axis.
#include "karez/api/ranks/link_costs.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/sbp/transfer.h"

namespace karez {
namespace {

const LinkCost* entry(const CostTable& costs, std::string_view name) {
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
  const bool far = topology.link == "tcp" ||
                   topology.hosts.at(static_cast<std::size_t>(a)) != topology.hosts.at(static_cast<std::size_t>(b));
  return far ? LinkTier::tcp : LinkTier::shm;
}

// The slowest link between devices that differ only in their position along the axis.
LinkTier tier_along(const Mesh& mesh, int axis, const RankTopology& topology) {
  int stride = 1;
  for (int inner = axis + 1; inner < mesh.rank(); ++inner) stride *= mesh.axes[static_cast<std::size_t>(inner)].size;
  const int size = mesh.axes[static_cast<std::size_t>(axis)].size;
  LinkTier farthest = LinkTier::local;
  for (int position = 0; position < mesh.size(); ++position) {
    const int next = position / stride % size + 1 < size ? position + stride : position;
    farthest = std::max(farthest, tier_between(topology, mesh.devices[static_cast<std::size_t>(position)].rank,
                                               mesh.devices[static_cast<std::size_t>(next)].rank));
  }
  return farthest;
}

}  // namespace

CostTable with_class_costs(CostTable costs, const std::vector<Mesh>& meshes, const RankTopology& topology) {
  std::map<std::string, LinkTier> tiers;
  for (const Mesh& mesh : meshes)
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      LinkTier& known = tiers.emplace(mesh.axes[static_cast<std::size_t>(axis)].name, LinkTier::local).first->second;
      known = std::max(known, tier_along(mesh, axis, topology));
    }
  if (meshes.size() > 1) {  // between placements
    std::set<int> ranks;
    for (const Mesh& mesh : meshes)
      for (DeviceName device : mesh.devices) ranks.insert(device.rank);
    LinkTier& known = tiers.emplace(std::string(sbp::placements_axis), LinkTier::local).first->second;
    for (int a : ranks)
      for (int b : ranks) known = std::max(known, tier_between(topology, a, b));
  }
  CostTable out = costs;
  for (const auto& [axis, tier] : tiers) {
    const LinkCost* cost = entry(costs, name_of(tier));
    if (cost == nullptr && tier == LinkTier::local) cost = entry(costs, name_of(LinkTier::shm));
    if (cost != nullptr && entry(costs, axis) == nullptr) out.axis_links.emplace_back(axis, *cost);
  }
  return out;
}

}  // namespace karez
