// Declares an independent oracle for the tests of sharding and transition equivalence. The oracle splits a logical
// array into the parts of all devices of a mesh, and assembles the logical array from these parts. It works in the
// simplest way, and uses only the data types of the tested code.
#pragma once

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "karez/device/host_array.h"
#include "karez/sbp/sbp.h"
#include "tests/namespace.h"

namespace karez::tests {

// Divides a range into `parts` parts and returns part `index`. The first (size mod parts) parts are longer by one.
Range oracle_part(Range whole, int parts, int index);

// Returns the coordinates of a device by its position; the last axis varies fastest.
std::vector<int> oracle_coordinates(const Mesh& mesh, int position);

// Returns the box of the device at `position`. Splits nest in the order of the mesh axes: each axis splits the part
// that the previous axes give.
Box oracle_box(const Shape& shape, const Mesh& mesh, const Layout& layout, int position);

Shape sizes_of(const Box& box);

// Calls visit(number of the element in the array, number of the element in the box) for all elements of a box, both
// row-major.
inline void each_element(const Shape& shape, const Box& box, auto visit) {
  std::vector<std::int64_t> at;
  for (const Range& range : box) {
    if (range.begin >= range.end) return;
    at.push_back(range.begin);
  }
  for (std::size_t inside = 0;; ++inside) {
    std::int64_t number = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) number = number * shape[d] + at[d];
    visit(static_cast<std::size_t>(number), inside);
    std::size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == box[d - 1].end) --d, at[d] = box[d].begin;
    if (d == 0) return;
  }
}

HostArray cut(const HostArray& array, const Box& box);

// The index of the summand of a Partial value that a device has, and the number of summands. Devices with equal
// coordinates on the Partial axes have parts of the same summand.
struct Summand {
  std::size_t index = 0, count = 1;
};
Summand summand_of(const Mesh& mesh, const Layout& layout, int position);

template <class T> T lowest() {
  return std::numeric_limits<T>::has_infinity ? static_cast<T>(-std::numeric_limits<T>::infinity())
                                              : std::numeric_limits<T>::lowest();
}
template <class T> T highest() {
  return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
}

// Returns `count` arrays that reduce to the given array. For a sum they are random summands, or, if `masked`, each
// element is in one array and zero in the others. For max and min they are random candidates, of which one is the
// value.
std::vector<HostArray> summands(const HostArray& array, Reduce reduce, std::size_t count, std::mt19937_64& random,
                                bool masked = false);

// Returns the part of each device, by position.
std::vector<HostArray> shards(const HostArray& array, const Mesh& mesh, const Layout& layout, std::mt19937_64& random,
                              bool masked = false);

// Assembles the logical array: places Split pieces, and reduces Partial pieces. Throws if devices that differ only on
// Broadcast axes have different bits, if a piece does not have the shape of its box, or if an element is missing.
HostArray assemble(const TensorType& type, const Mesh& mesh, const Layout& layout,
                   const std::vector<HostArray>& pieces);

}  // namespace karez::tests
