// Changes of the entry of one mesh axis: the move, whether it is legal, and its cost, given the shape that the devices
// of a group on this axis hold together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "karez/sbp/namespace.h"
#include "karez/sbp/transition.h"

namespace karez::sbp {

// Returns the move between two entries, or nullopt if they are equal or both Partial.
std::optional<Move> move_between(Sbp from, Sbp to);

// True if no later axis splits a dimension that `from` or `to` splits. Only then do the parts of a group's members form
// one contiguous range. Example on a (2, 2) mesh: with (S(0), S(0)), device (0, 1) holds the second quarter. For
// (B, S(0)) it needs the second half, but its group on axis 0, the devices (0, 1) and (1, 1), holds only the second and
// the fourth quarter. Axes of size 1 do not count, since they split nothing.
bool boxes_nest(const Mesh& mesh, std::span<const Sbp> layout, int axis, Sbp from, Sbp to);

// Returns the seconds on the busiest device of a group of n devices that hold `shape` together; see `seconds` in
// transition.h. `memory_bytes` is a rate in bytes per second (CostTable::memory_bytes).
double move_seconds(Move move, Sbp from, Sbp to, int n, std::span<const std::int64_t> shape, std::int64_t element_bytes,
                    const LinkCost& link, double memory_bytes);

// The cheapest algorithm for an all_reduce of n members with `bytes` each, and its cost. `range` is the size in bytes
// of the longest of the n ranges into which the value is divided.
struct AllReduceChoice {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::direct;
  double seconds = 0;
};
AllReduceChoice cheapest_all_reduce(int n, double bytes, double range, const LinkCost& link, double memory_bytes);

// Returns the same number as `seconds` in transition.h, but does not check that the step is legal.
double step_seconds(const TensorType& type, const Mesh& mesh, const TransitionStep& step, const CostTable& costs);

}  // namespace karez::sbp
