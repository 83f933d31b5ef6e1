// Split, Broadcast, Partial (SBP): the distribution of a logical tensor on one mesh axis, and layouts with one entry
// per axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/sbp/mesh.h"
#include "karez/sbp/namespace.h"
#include "karez/tensor/reduce.h"
#include "karez/tensor/tensor.h"

namespace karez::sbp {

using tensor::Reduce;

struct Sbp {
  enum class Kind : std::uint8_t { split, broadcast, partial };
  Kind kind = Kind::broadcast;
  int dim = 0;                  // the split dimension, for a split
  Reduce reduce = Reduce::sum;  // the reduction, for a partial

  bool is_split() const { return kind == Kind::split; }
  bool is_split(int d) const { return kind == Kind::split && dim == d; }
  bool is_broadcast() const { return kind == Kind::broadcast; }
  bool is_partial() const { return kind == Kind::partial; }
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 mistakes the 0 of the defaulted comparison for a pointer
  auto operator<=>(const Sbp&) const = default;  // total order; S(0) < S(1) < B < P(sum) < P(max) < P(min)
};
inline Sbp S(int dim) { return {Sbp::Kind::split, dim, Reduce::sum}; }
inline Sbp B() { return {Sbp::Kind::broadcast, 0, Reduce::sum}; }
inline Sbp P(Reduce reduce = Reduce::sum) { return {Sbp::Kind::partial, 0, reduce}; }
std::string print(Sbp sbp);  // "S(0)", "B", "P(sum)"
inline std::ostream& operator<<(std::ostream& out, Sbp sbp) { return out << print(sbp); }

using Layout = std::vector<Sbp>;          // one entry per mesh axis
std::string print(const Layout& layout);  // "(S(0), B)"
Layout broadcast_layout(const Mesh& mesh);

// "f32[1024@data, 512]" or "f32[8@data, 4; sum@model]"; a layout of Broadcast entries only is printed as "f32[8, 4;]".
std::string print(const TensorType& type, const Mesh& mesh, const Layout& layout);

// A half-open range of one dimension; a Box has one range per dimension.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
using Box = std::vector<Range>;
Shape shape_of(const Box& box);
Box full_box(const Shape& shape);
Box intersect(const Box& a, const Box& b);  // has an empty range if a and b are disjoint
bool empty(const Box& box);

// Part `index` of `parts` parts of a range. The first (size mod parts) parts are one longer: 6 elements in 4 parts give
// 2, 2, 1, 1.
Range part_of(Range range, int parts, int index);

// The box of the logical tensor that the device at `position` holds (for Partial: the box of its summand). Splits nest
// in mesh-axis order.
Box local_box(const Shape& shape, const Mesh& mesh, const Layout& layout, int position);

// True if the layout is valid for the type: one entry per axis, split dimensions exist, at most one kind of Partial.
// Otherwise sets `reason` (if it is not null).
bool is_valid(const TensorType& type, const Mesh& mesh, const Layout& layout, std::string* reason = nullptr);

}  // namespace karez::sbp
