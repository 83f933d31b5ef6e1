// Transfers between meshes, whose pieces are intersections of boxes.
#include "karez/sbp/transfer.h"

#include <algorithm>
#include <map>

namespace karez::sbp {
namespace {

struct BoxHolders {
  Box box;
  std::vector<int> positions;  // the devices that hold the box
};

// The distinct boxes of a layout without Partial. They are disjoint and cover the tensor.
std::vector<BoxHolders> distinct_boxes(const Shape& shape, PlacedLayout placed) {
  std::vector<BoxHolders> out;
  for (int position = 0; position < placed.mesh.size(); ++position) {
    Box box = local_box(shape, placed.mesh, placed.layout, position);
    auto same = std::find_if(out.begin(), out.end(), [&](const BoxHolders& holders) { return holders.box == box; });
    if (same == out.end()) same = out.insert(same, {std::move(box), {}});
    same->positions.push_back(position);
  }
  return out;
}

int sender(const BoxHolders& holders, PlacedLayout from, DeviceName receiver, int turn) {
  std::vector<int> same_rank;
  for (int position : holders.positions) {
    DeviceName name = from.mesh.devices[static_cast<std::size_t>(position)];
    if (name == receiver) return position;
    if (name.rank == receiver.rank) same_rank.push_back(position);
  }
  const std::vector<int>& candidates = same_rank.empty() ? holders.positions : same_rank;
  return candidates[static_cast<std::size_t>(turn) % candidates.size()];
}

void require_no_partial(const Layout& layout) {
  for (Sbp entry : layout)
    if (entry.is_partial())
      fail(ErrorKind::layout, "transfer: ", print(layout), " has a Partial; reduce it before the transfer");
}

}  // namespace

std::vector<TransferPiece> transfer_pieces(const Shape& shape, PlacedLayout from, PlacedLayout to) {
  require_no_partial(from.layout);
  require_no_partial(to.layout);
  const std::vector<BoxHolders> holders = distinct_boxes(shape, from);
  std::vector<TransferPiece> out;
  for (int position = 0; position < to.mesh.size(); ++position) {
    const DeviceName receiver = to.mesh.devices[static_cast<std::size_t>(position)];
    const Box needed = local_box(shape, to.mesh, to.layout, position);
    for (const BoxHolders& holder : holders) {
      Box box = intersect(holder.box, needed);
      if (empty(box)) continue;
      int from_position = sender(holder, from, receiver, position);
      out.push_back({from_position, position, std::move(box),
                     from.mesh.devices[static_cast<std::size_t>(from_position)] == receiver});
    }
  }
  return out;
}

double transfer_seconds(const TensorType& type, PlacedLayout from, PlacedLayout to, const CostTable& costs) {
  struct Load {
    double messages = 0, bytes = 0;
  };
  std::map<DeviceName, Load> sends, receives;
  std::map<DeviceName, double> copies;
  for (const TransferPiece& piece : transfer_pieces(type.shape, from, to)) {
    const double bytes = static_cast<double>(count_of(shape_of(piece.box)) * size_of(type.dtype));
    const DeviceName sender = from.mesh.devices[static_cast<std::size_t>(piece.from)],
                     receiver = to.mesh.devices[static_cast<std::size_t>(piece.to)];
    if (piece.is_local) {
      copies[receiver] += bytes;
      continue;
    }
    for (Load* load : {&sends[sender], &receives[receiver]}) load->messages += 1, load->bytes += bytes;
  }
  const LinkCost& link = costs.of_axis(placements_axis);
  double busiest = 0, max_copied = 0;
  for (const auto* loads : {&sends, &receives})
    for (const auto& [device, load] : *loads)
      busiest = std::max(busiest, load.messages * link.alpha + load.bytes * link.beta);
  for (const auto& [device, bytes] : copies) max_copied = std::max(max_copied, bytes);
  return busiest + max_copied / costs.memory_bytes;
}

std::vector<Layout> layouts_without_partial(const TensorType& type, const Mesh& mesh) {
  std::vector<Layout> out = {{}};
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    std::vector<Layout> extended;
    for (const Layout& layout : out) {
      for (int d = 0; d <= type.rank(); ++d) {
        extended.push_back(layout);
        extended.back().push_back(d < type.rank() ? S(d) : B());
      }
    }
    out = std::move(extended);
  }
  return out;
}

}  // namespace karez::sbp
