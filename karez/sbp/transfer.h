// Transfers of a tensor from one mesh to another: the box that each device sends to each other device, and the
// seconds that this takes.
#pragma once

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

// Returns the pieces that every device of the new mesh must receive, in the order of the receivers; a receiver gets
// each element once. Neither layout may have a Partial; reduce it before the transfer. Elements that a device already
// holds are a local piece. If several devices hold the same box, devices of the receiver's rank are preferred as
// senders, and receivers alternate among the candidates.
//   f32[4, 2] from (S(0)) on 2 devices to (B) on a third device: two pieces, rows 0-1 and rows 2-3
std::vector<TransferPiece> transfer_pieces(const Shape& shape, PlacedLayout from, PlacedLayout to);

// The name of the links between placements in a cost table; it is used like the name of a mesh axis.
inline constexpr std::string_view placements_axis = "stage";

// Returns the seconds of a transfer: messages x alpha + bytes x beta of the device that sends or receives longest, plus
// the time of the device that copies the most local bytes. The cost table's link for the axis `stage` applies, if there
// is one, otherwise its default link.
double transfer_seconds(const TensorType& type, PlacedLayout from, PlacedLayout to, const CostTable& costs);

// All layouts without Partial that a type can have on a mesh, in ascending order.
std::vector<Layout> layouts_without_partial(const TensorType& type, const Mesh& mesh);

}  // namespace karez::sbp
