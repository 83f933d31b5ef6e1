// From axes to the classes of their links.
#include "api/inside/link_costs.h"

#include <algorithm>
#include <map>

namespace karez {
namespace {

const LinkCost* entry(const CostTable& costs, std::string_view name) {
  for (const auto& [axis, cost] : costs.axis_links)
    if (axis == name) return &cost;
  return nullptr;
}

bool is_far(const RankPlaces& places, int a, int b) {
  if (a == b) return false;
  return places.link == "tcp" || places.hosts.at(static_cast<std::size_t>(a)) != places.hosts.at(static_cast<std::size_t>(b));
}

// Whether some of those who differ in their place along the axis alone have a link between hosts.
bool goes_far(const Mesh& mesh, int axis, const RankPlaces& places) {
  int stride = 1;
  for (int inner = axis + 1; inner < mesh.rank(); ++inner) stride *= mesh.axes[static_cast<std::size_t>(inner)].size;
  const int size = mesh.axes[static_cast<std::size_t>(axis)].size;
  for (int position = 0; position < mesh.size(); ++position) {
    const int next = position / stride % size + 1 < size ? position + stride : position;
    if (is_far(places, mesh.devices[static_cast<std::size_t>(position)].rank, mesh.devices[static_cast<std::size_t>(next)].rank)) return true;
  }
  return false;
}

}  // namespace

CostTable with_class_costs(CostTable costs, const std::vector<Mesh>& meshes, const RankPlaces& places) {
  std::map<std::string, bool> far;
  for (const Mesh& mesh : meshes)
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      bool& known = far[mesh.axes[static_cast<std::size_t>(axis)].name];
      known = known || goes_far(mesh, axis, places);
    }
  CostTable out = costs;
  for (const auto& [axis, is] : far)
    if (const LinkCost* cost = entry(costs, is ? "tcp" : "shm"); cost != nullptr && entry(costs, axis) == nullptr)
      out.axis_links.emplace_back(axis, *cost);
  return out;
}

}  // namespace karez
