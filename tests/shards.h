// For sharding and transition equivalence: what each device of a mesh holds of a logical array, and the logical array
// that all devices' pieces stand for. An oracle: of what it checks it takes data types alone; where parts begin and
// where elements lie is worked out here, in the plainest way there is.
#pragma once

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "karez/device/host_array.h"
#include "karez/sbp/sbp.h"
#include "tests/namespace.h"

namespace karez::tests {

// Part `index` of a range in `parts`: sizes are counted out one after the other, the first size mod parts of them one
// longer.
Range oracle_part(Range whole, int parts, int index);

// The coordinates of a device by its position: the last axis runs fastest.
std::vector<int> oracle_coordinates(const Mesh& mesh, int position);

// What the device at `position` holds: splits nest in mesh-axis order, each cuts what the axes before it left.
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

// The device's coordinates on the Partial axes as one number, and how many there are: which summand of a Partial value
// it holds.
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

// `count` arrays that reduce to the given one: random summands, or candidates of which a random one is the value.
// `masked`: of a sum each element stands on one device, beside zeros.
std::vector<HostArray> summands(const HostArray& array, Reduce reduce, std::size_t count, std::mt19937_64& random,
                                bool masked = false);

// What each device holds, by position.
std::vector<HostArray> shards(const HostArray& array, const Mesh& mesh, const Layout& layout, std::mt19937_64& random,
                              bool masked = false);

// The logical array that the pieces stand for: Split parts placed, Partial ones reduced. Throws where devices that hold
// the same piece (they differ on Broadcast axes alone) do not hold the same bits, a piece has another shape than its
// box, or an element is missing.
HostArray assemble(const TensorType& type, const Mesh& mesh, const Layout& layout,
                   const std::vector<HostArray>& pieces);

}  // namespace karez::tests
