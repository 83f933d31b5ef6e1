// Changes of the entry of one mesh axis: the move, its legality and its price, given the shape that the axis' group
// holds together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "karez/sbp/namespace.h"
#include "karez/sbp/transition.h"

namespace karez::sbp {

// Returns the move between two entries, or nullopt if they are equal or both Partial.
std::optional<Move> move_between(Sbp from, Sbp to);

// True if no later axis splits a dimension that `from` or `to` splits. Only then are the parts of a group's members
// contiguous in one range: on (2, 2), (S(0), S(0)) gives device (0, 1) the second quarter, and (B, S(0)) requires the
// second half, of which its group (0, 1), (1, 1) holds only the fourth quarter. Axes of one device split nothing.
bool boxes_nest(const Mesh& mesh, std::span<const Sbp> layout, int axis, Sbp from, Sbp to);

// Returns the seconds on the busiest device of a group of n devices that hold `shape` together; see `seconds` in
// transition.h.
double move_seconds(Move move, Sbp from, Sbp to, int n, std::span<const std::int64_t> shape, std::int64_t element_bytes,
                    const LinkCost& link, double memory_bytes);

// The cheapest algorithm for an all_reduce of n members with `bytes` each, and its price; `range` is the size in bytes
// of the longest of the n ranges.
struct AllReduceChoice {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::direct;
  double seconds = 0;
};
AllReduceChoice cheapest_all_reduce(int n, double bytes, double range, const LinkCost& link, double memory_bytes);

// Returns `seconds` (transition.h) of a step without checking that it is legal.
double step_seconds(const TensorType& type, const Mesh& mesh, const TransitionStep& step, const CostTable& costs);

}  // namespace karez::sbp
