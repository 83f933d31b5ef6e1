// From axes to the classes of their links.
#include "karez/api/inside/link_costs.h"

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

enum class Way { local, shm, tcp };  // nearest first
constexpr std::string_view name_of(Way way) { return way == Way::local ? "local" : way == Way::shm ? "shm" : "tcp"; }

Way between(const RankPlaces& places, int a, int b) {
  if (a == b) return Way::local;
  const bool far = places.link == "tcp" ||
                   places.hosts.at(static_cast<std::size_t>(a)) != places.hosts.at(static_cast<std::size_t>(b));
  return far ? Way::tcp : Way::shm;
}

// The farthest between those who differ in their place along the axis alone.
Way along(const Mesh& mesh, int axis, const RankPlaces& places) {
  int stride = 1;
  for (int inner = axis + 1; inner < mesh.rank(); ++inner) stride *= mesh.axes[static_cast<std::size_t>(inner)].size;
  const int size = mesh.axes[static_cast<std::size_t>(axis)].size;
  Way farthest = Way::local;
  for (int position = 0; position < mesh.size(); ++position) {
    const int next = position / stride % size + 1 < size ? position + stride : position;
    farthest = std::max(farthest, between(places, mesh.devices[static_cast<std::size_t>(position)].rank,
                                          mesh.devices[static_cast<std::size_t>(next)].rank));
  }
  return farthest;
}

}  // namespace

CostTable with_class_costs(CostTable costs, const std::vector<Mesh>& meshes, const RankPlaces& places) {
  std::map<std::string, Way> ways;
  for (const Mesh& mesh : meshes)
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      Way& known = ways.emplace(mesh.axes[static_cast<std::size_t>(axis)].name, Way::local).first->second;
      known = std::max(known, along(mesh, axis, places));
    }
  if (meshes.size() > 1) {  // between placements
    std::set<int> ranks;
    for (const Mesh& mesh : meshes)
      for (DeviceName device : mesh.devices) ranks.insert(device.rank);
    Way& known = ways.emplace(std::string(sbp::placements_axis), Way::local).first->second;
    for (int a : ranks)
      for (int b : ranks) known = std::max(known, between(places, a, b));
  }
  CostTable out = costs;
  for (const auto& [axis, way] : ways) {
    const LinkCost* cost = entry(costs, name_of(way));
    if (cost == nullptr && way == Way::local) cost = entry(costs, name_of(Way::shm));
    if (cost != nullptr && entry(costs, axis) == nullptr) out.axis_links.emplace_back(axis, *cost);
  }
  return out;
}

}  // namespace karez
