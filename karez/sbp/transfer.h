// Transfers: a tensor on one mesh, wanted on another. Which box goes from which device to which, what that sends and
// how long it takes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "karez/sbp/cost.h"
#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// A tensor as it lies on a mesh.
struct PlacedLayout {
  const Mesh& mesh;
  const Layout& layout;
};

// A box of the logical tensor that one device of the new mesh takes from one of the old mesh; where both are one device
// nothing crosses.
struct TransferPiece {
  int from = 0, to = 0;  // positions on the old and on the new mesh
  Box box;
  bool is_local = false;  // from a device to itself
  bool operator==(const TransferPiece&) const = default;
};

// What every device of the new mesh must get, each element once, in the order of the receivers. Neither layout may have
// a Partial: what is summed is summed where it lies. What a device holds already it takes from itself; of several that
// hold the same box each receiver asks one of its own rank if there is one, and receivers take turns at them.
//   f32[4, 2] from (S(0)) on 2 devices to (B) on 1 other: two pieces, rows 0-1 and rows 2-3
std::vector<TransferPiece> transfer_pieces(const Shape& shape, PlacedLayout from, PlacedLayout to);

// Bytes that cross between devices.
std::int64_t transfer_bytes(const TensorType& type, PlacedLayout from, PlacedLayout to);

// By which a cost table knows the links between placements, like an axis.
inline constexpr std::string_view placements_axis = "stage";

// Seconds: messages x alpha + bytes x beta of the device that has most to send or to receive, plus what it copies to
// itself at the memory rate. The link is that of the axis `stage`, if the table has one.
double transfer_seconds(const TensorType& type, PlacedLayout from, PlacedLayout to, const CostTable& costs);

// All layouts of a type on a mesh that have no Partial, in the order of layouts.
std::vector<Layout> layouts_without_partial(const TensorType& type, const Mesh& mesh);

}  // namespace karez::sbp
