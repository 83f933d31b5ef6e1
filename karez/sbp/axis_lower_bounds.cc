// Minimum seconds of the steps on one axis, and of the trees made of such steps.
#include "karez/sbp/axis_lower_bounds.h"

#include <algorithm>
#include <limits>

#include "karez/sbp/axis_transition.h"

namespace karez::sbp {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

std::vector<Sbp> entries_of(const TensorType& type) {
  std::vector<Sbp> entries;
  for (int d = 0; d < type.rank(); ++d) entries.push_back(S(d));
  entries.push_back(B());
  for (Reduce reduce : {Reduce::sum, Reduce::max, Reduce::min}) entries.push_back(P(reduce));
  return entries;
}

// Sets the entries of the other axes in `layout` to every combination of splits and Broadcast, and calls visit() for
// each.
template <class Visit>
void for_each_rest(const TensorType& type, const Mesh& mesh, int axis, int other_axis, Layout& layout, Visit visit) {
  if (other_axis == mesh.rank()) return visit();
  if (other_axis == axis) return for_each_rest(type, mesh, axis, other_axis + 1, layout, visit);
  for (int d = 0; d <= type.rank(); ++d) {
    layout[static_cast<std::size_t>(other_axis)] = d < type.rank() ? S(d) : B();
    for_each_rest(type, mesh, axis, other_axis + 1, layout, visit);
  }
}

// Computes shortest paths by the algorithm of Floyd and Warshall.
void shorten(std::vector<std::vector<double>>& distances) {
  for (std::size_t k = 0; k < distances.size(); ++k)
    for (auto& row : distances)
      for (std::size_t j = 0; j < distances.size(); ++j) row[j] = std::min(row[j], row[k] + distances[k][j]);
}
}  // namespace

AxisLowerBounds::AxisLowerBounds(const TensorType& type, const Mesh& mesh, const CostTable& costs)
    : rank_(type.rank()),
      trees_(static_cast<std::size_t>(mesh.rank())) {
  const std::vector<Sbp> entries = entries_of(type);
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    auto& distances = distances_.emplace_back(entries.size(), std::vector<double>(entries.size(), inf));
    for (std::size_t e = 0; e < entries.size(); ++e) distances[e][e] = 0;
    TransitionStep step{axis, Move::slice, broadcast_layout(mesh), {}};
    for_each_rest(type, mesh, axis, 0, step.from, [&] {
      for (std::size_t e = 0; e < entries.size(); ++e)
        for (std::size_t f = 0; f < entries.size(); ++f) {
          const auto move = move_between(entries[e], entries[f]);
          if (!move || !boxes_nest(mesh, step.from, axis, entries[e], entries[f])) continue;
          step.move = *move;
          step.from[static_cast<std::size_t>(axis)] = entries[e];
          step.to = step.from;
          step.to[static_cast<std::size_t>(axis)] = entries[f];
          distances[e][f] = std::min(distances[e][f], step_seconds(type, mesh, step, costs));
        }
    });
    shorten(distances);
  }
}

int AxisLowerBounds::number(Sbp entry) const {
  return entry.is_split() ? entry.dim : entry.is_broadcast() ? rank_ : rank_ + 1 + static_cast<int>(entry.reduce);
}

double AxisLowerBounds::seconds(int axis, Sbp from, unsigned targets) {
  const unsigned rest = targets & ~(1U << number(from));
  return rest == none ? 0 : tree(axis, rest)[static_cast<std::size_t>(number(from))];
}

// The algorithm of Dreyfus and Wagner; the number of entries is small.
const std::vector<double>& AxisLowerBounds::tree(int axis, unsigned targets) {
  Trees& trees = trees_[static_cast<std::size_t>(axis)];
  if (const auto cached = trees.find(targets); cached != trees.end()) return cached->second;
  const auto& distances = distances_[static_cast<std::size_t>(axis)];
  std::vector<double> branch(distances.size(), inf);
  const unsigned lowest = targets & -targets;
  if (lowest == targets) {
    for (std::size_t e = 0; e < distances.size(); ++e)
      if (targets == 1U << e) branch[e] = 0;
  }
  for (unsigned part = (targets - 1) & targets; part != 0; part = (part - 1) & targets) {
    if ((part & lowest) == 0) continue;  // visit each partition once
    const auto &first_tree = tree(axis, part), &second_tree = tree(axis, targets ^ part);
    for (std::size_t e = 0; e < distances.size(); ++e) branch[e] = std::min(branch[e], first_tree[e] + second_tree[e]);
  }
  std::vector<double> total(distances.size(), inf);
  for (std::size_t e = 0; e < distances.size(); ++e)
    for (std::size_t root = 0; root < distances.size(); ++root)
      total[e] = std::min(total[e], distances[e][root] + branch[root]);
  return trees[targets] = std::move(total);
}

}  // namespace karez::sbp
