// Transfers of a tensor from one mesh to another: the box that each device sends to each other device, bytes and
// seconds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "karez/sbp/cost.h"
#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// The mesh and the layout of a tensor.
struct PlacedLayout {
  const Mesh& mesh;
  const Layout& layout;
};

// A box of the logical tensor that a device of the new mesh takes from a device of the old mesh; if both are the same
// device, nothing is sent.
struct TransferPiece {
  int from = 0, to = 0;  // positions on the old and on the new mesh
  Box box;
  bool is_local = false;  // sender and receiver are the same device
  bool operator==(const TransferPiece&) const = default;
};

// The pieces that every device of the new mesh must receive, each element once, in the order of the receivers. Neither
// layout may have a Partial, which must be reduced before. A device takes the elements that it already holds from
// itself; if several devices hold the same box, a receiver prefers one of its own rank, and receivers alternate among
// the candidates.
//   f32[4, 2] from (S(0)) on 2 devices to (B) on 1 other: two pieces, rows 0-1 and rows 2-3
std::vector<TransferPiece> transfer_pieces(const Shape& shape, PlacedLayout from, PlacedLayout to);

// Bytes that cross between devices.
std::int64_t transfer_bytes(const TensorType& type, PlacedLayout from, PlacedLayout to);

// The name of the links between placements in a cost table, used like an axis name.
inline constexpr std::string_view placements_axis = "stage";

// Seconds: messages x alpha + bytes x beta of the device with the most to send or receive, plus the most local bytes of
// any device at the memory rate. The link is that of the axis `stage`, if the table has one.
double transfer_seconds(const TensorType& type, PlacedLayout from, PlacedLayout to, const CostTable& costs);

// All layouts of a type on a mesh without Partial, in the order of layouts.
std::vector<Layout> layouts_without_partial(const TensorType& type, const Mesh& mesh);

}  // namespace karez::sbp
