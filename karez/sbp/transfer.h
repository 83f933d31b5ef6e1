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

// A box of the logical tensor that a device of the new mesh receives from a device of the old mesh. If both are the
// same device, nothing is sent.
struct TransferPiece {
  int from = 0, to = 0;  // positions of sender and receiver on the old and on the new mesh
  Box box;
  bool is_local = false;  // sender and receiver are the same device
  bool operator==(const TransferPiece&) const = default;
};

// The pieces that every device of the new mesh must receive, each element once, in the order of the receivers. Neither
// layout may have a Partial; reduce it before the transfer. Elements that a device already holds are a local piece. If
// several devices hold the same box, devices of the receiver's rank are preferred as senders, and receivers alternate
// among the candidates.
//   f32[4, 2] from (S(0)) on 2 devices to (B) on a third device: two pieces, rows 0-1 and rows 2-3
std::vector<TransferPiece> transfer_pieces(const Shape& shape, PlacedLayout from, PlacedLayout to);

// Bytes that are sent between different devices.
std::int64_t transfer_bytes(const TensorType& type, PlacedLayout from, PlacedLayout to);

// The name of the links between placements in a cost table; it is used like the name of a mesh axis.
inline constexpr std::string_view placements_axis = "stage";

// Seconds of a transfer: messages x alpha + bytes x beta of the device that sends or receives longest, plus the
// maximum of any device's local bytes at the memory rate. The link is the one of the axis `stage`, if the table has it.
double transfer_seconds(const TensorType& type, PlacedLayout from, PlacedLayout to, const CostTable& costs);

// All layouts without Partial that a type can have on a mesh, in ascending order.
std::vector<Layout> layouts_without_partial(const TensorType& type, const Mesh& mesh);

}  // namespace karez::sbp
