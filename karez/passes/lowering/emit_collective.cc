// Converts box nodes to collectives. Their peer boxes are intersections of the members' boxes.
#include "karez/passes/lowering/emit_collective.h"

#include <algorithm>

#include "karez/sbp/transfer.h"

namespace karez::passes {
namespace {

CollectiveKind collective_kind_of(Move move) {
  switch (move) {
    case Move::all_reduce: return CollectiveKind::all_reduce;
    case Move::reduce_scatter: return CollectiveKind::reduce_scatter;
    case Move::all_gather: return CollectiveKind::all_gather;
    case Move::all_to_all: return CollectiveKind::all_to_all;
    case Move::slice:
    case Move::to_partial: break;
  }
  fail("emit: a ", name_of(move), " is local and has no collective");
}

CollectiveAlgorithm algorithm_of(AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllReduceAlgorithm::direct: return CollectiveAlgorithm::direct;
    case AllReduceAlgorithm::ring: return CollectiveAlgorithm::ring;
    case AllReduceAlgorithm::recursive: return CollectiveAlgorithm::recursive;
    case AllReduceAlgorithm::flat: return CollectiveAlgorithm::flat;
  }
  fail("emit: an all_reduce without an algorithm");
}

PeerBox make_peer_box(int peer, const Box& box, const Box& within) {
  PeerBox out;
  out.peer = peer;
  for (std::size_t d = 0; d < box.size(); ++d) {
    out.begin.push_back(empty(box) ? 0 : box[d].begin - within[d].begin);
    out.size.push_back(empty(box) ? 0 : box[d].size());
  }
  return out;
}

std::int64_t bytes_of(const PeerBox& box, DType dtype) { return count_of(box.size) * size_of(dtype); }

// Returns the number of elements that the device at `position` sends in a step, by the formulas of karez/comm. On a
// ring, a member forwards the parts that it receives, so the number also depends on the next member's part.
std::int64_t elements_sent(const TensorType& type, const Mesh& mesh, const TransitionStep& step, const CostTable& costs,
                           int position) {
  const Shape& shape = type.shape;
  const std::vector<int> group = mesh.group(step.axis, position);
  const int n = static_cast<int>(group.size());
  const int member = static_cast<int>(std::find(group.begin(), group.end(), position) - group.begin()),
            next_member = (member + 1) % n;
  const bool ring = uses_ring(n);
  const Box from = local_box(shape, mesh, step.from, position), to = local_box(shape, mesh, step.to, position);
  const std::int64_t elements_before = count_of(shape_of(from)), elements_after = count_of(shape_of(to));
  // Returns the number of elements that member m reduces.
  auto range = [&](int m) { return part_of({0, elements_before}, n, m).size(); };
  switch (step.move) {
    case Move::all_reduce:
      switch (all_reduce_of(type, mesh, step, costs)) {
        case AllReduceAlgorithm::direct: return elements_before + (n - 2) * range(member);
        case AllReduceAlgorithm::ring: return 2 * elements_before - range(member) - range(next_member);
        case AllReduceAlgorithm::flat: return (n - 1) * elements_before;
        case AllReduceAlgorithm::recursive: {
          std::int64_t elements_back = 0;
          for (int known_parts = 1; known_parts < n; known_parts *= 2)
            for (int r = member / known_parts * known_parts; r < member / known_parts * known_parts + known_parts; ++r)
              elements_back += range(r);
          return elements_before - range(member) + elements_back;
        }
      }
      return 0;
    case Move::all_gather:
      if (ring)
        return elements_after -
               count_of(shape_of(local_box(shape, mesh, step.from, group[static_cast<std::size_t>(next_member)])));
      return (n - 1) * elements_before;
    case Move::reduce_scatter: return elements_before - elements_after;
    case Move::all_to_all: return elements_before - count_of(shape_of(intersect(from, to)));
    default: return 0;
  }
}

}  // namespace

TransitionStep step_of(const Graph& graph, NodeId box) {
  const Node& node = graph.node(box);
  return {static_cast<int>(node.attrs.integer("axis")), move_from(node.attrs.text("move")),
          *graph.value(node.inputs[0]).layout, *graph.value(node.outputs[0]).layout};
}

CollectiveKind kind_of_transfer(const Node& node) {
  if (node.op->role == Role::transfer) return CollectiveKind::transfer;
  return collective_kind_of(move_from(node.attrs.text("move")));
}

CommunicatorId Communicators::communicator(NodeId node, std::vector<DeviceName> members) {
  const CommunicatorKey key = communicator_key(c_.graph, node);
  auto [entry, inserted] = ids_.try_emplace({key, members[0]}, CommunicatorId(plan_.communicators.size()));
  if (!inserted) return entry->second;
  Communicator result;
  for (DeviceName name : members) result.members.push_back({name.rank, name.device, "cpu"});
  std::vector<std::pair<int, std::string>> names;
  for (NodeId n : c_.graph.nodes.ids()) {
    const Node& other_node = c_.graph.nodes[n];
    if (c_.slot_assignment.turns[n].empty() || communicator_key(c_.graph, n) != key) continue;
    for (int turn : c_.slot_assignment.turns[n])
      names.emplace_back(turn, cat(kind_of_transfer(other_node), " %", other_node.outputs[0]));
  }
  std::sort(names.begin(), names.end());
  for (auto& name : names) result.sequence.push_back(std::move(name.second));
  plan_.communicators.push_back(std::move(result));
  return entry->second;
}

// A transfer between two meshes is an all_to_all among the devices of both meshes, in which most peer boxes are empty.
Collective Communicators::transfer_between(NodeId id, DeviceName device, std::int64_t& staging) {
  const Graph& graph = c_.graph;
  const Node& node = graph.node(id);
  const Mesh &from = graph.mesh(node.inputs[0]), &to = graph.mesh(node.outputs[0]);
  const Layout &from_layout = *graph.value(node.inputs[0]).layout, &to_layout = *graph.value(node.outputs[0]).layout;
  TensorType type = graph.type(node.outputs[0]);
  // A scalar is sent as an array of one element, because a box without dimensions could not be empty.
  if (type.shape.empty()) type.shape = {1};
  std::vector<DeviceName> members = from.devices;
  for (DeviceName name : to.devices)
    if (std::find(members.begin(), members.end(), name) == members.end()) members.push_back(name);
  Collective collective;
  collective.communicator = communicator(id, members);
  collective.kind = CollectiveKind::transfer;
  collective.turns = c_.slot_assignment.turns[id];
  collective.where = describe(graph, graph.value(node.inputs[0]).producer);
  for (std::size_t m = 0; m < members.size(); ++m) collective.sends.push_back({static_cast<int>(m), {}, {}});
  collective.receives = collective.sends;
  auto member = [&](DeviceName name) {
    return static_cast<std::size_t>(std::find(members.begin(), members.end(), name) - members.begin());
  };
  const int position_before = position_on(from, device), position_after = position_on(to, device);
  for (const TransferPiece& piece : transfer_pieces(type.shape, {from, from_layout}, {to, to_layout})) {
    const DeviceName sender = from.devices[static_cast<std::size_t>(piece.from)],
                     receiver = to.devices[static_cast<std::size_t>(piece.to)];
    auto add_piece = [&](std::vector<PeerBox>& boxes, DeviceName peer, const Box& local) {
      PeerBox& peer_box = boxes[member(peer)];
      require(peer_box.size.empty(),
              "emit: a transfer has two pieces between the same two devices: ", collective.where);
      peer_box = make_peer_box(peer_box.peer, piece.box, local);
      staging += round_up(bytes_of(peer_box, type.dtype), 64);
    };
    if (sender == device)
      add_piece(collective.sends, receiver, local_box(type.shape, from, from_layout, position_before));
    if (receiver == device)
      add_piece(collective.receives, sender, local_box(type.shape, to, to_layout, position_after));
  }
  return collective;
}

Collective Communicators::collective(NodeId box, DeviceName device, const View& in, const View& out,
                                     std::int64_t& staging) {
  const Graph& graph = c_.graph;
  if (graph.node(box).op->role == Role::transfer) return transfer_between(box, device, staging);
  const Mesh& mesh = graph.mesh(graph.node(box).outputs[0]);
  const int position = position_on(mesh, device);
  TransitionStep step = step_of(graph, box);
  const Shape& shape = graph.type(graph.node(box).outputs[0]).shape;
  std::vector<int> group = mesh.group(step.axis, position);
  Collective collective;
  std::vector<DeviceName> members;
  for (int member : group) members.push_back(mesh.devices[static_cast<std::size_t>(member)]);
  collective.communicator = communicator(box, members);
  collective.kind = collective_kind_of(step.move);
  collective.turns = c_.slot_assignment.turns[box];
  collective.where = describe(graph, graph.value(graph.node(box).inputs[0]).producer);
  Sbp from = step.from[static_cast<std::size_t>(step.axis)];
  if (from.is_partial()) collective.reduce = from.reduce;
  Box own_in = local_box(shape, mesh, step.from, position), own_out = local_box(shape, mesh, step.to, position);
  for (std::size_t m = 0; m < group.size() && step.move != Move::all_reduce; ++m) {
    Box peer_in = local_box(shape, mesh, step.from, group[m]), peer_out = local_box(shape, mesh, step.to, group[m]);
    int peer = static_cast<int>(m);
    collective.sends.push_back(make_peer_box(peer, intersect(own_in, peer_out), own_in));
    collective.receives.push_back(make_peer_box(peer, intersect(peer_in, own_out), own_out));
  }
  // An upper bound: the staging bytes by the formula of karez/comm if no box is contiguous.
  auto r64 = [](std::int64_t bytes) { return round_up(bytes, 64); };
  auto n = static_cast<std::int64_t>(group.size());
  std::int64_t in_bytes = in.count() * size_of(in.dtype), out_bytes = out.count() * size_of(out.dtype), sends = 0,
               receives = 0, largest = 0;
  for (const PeerBox& p : collective.sends)
    sends += r64(bytes_of(p, in.dtype)), largest = std::max(largest, r64(bytes_of(p, in.dtype)));
  for (const PeerBox& p : collective.receives) receives += r64(bytes_of(p, in.dtype));
  const bool direct = !uses_ring(static_cast<int>(n));
  collective.algorithm = direct ? CollectiveAlgorithm::direct : CollectiveAlgorithm::ring;
  switch (step.move) {
    case Move::all_reduce: {
      const AllReduceAlgorithm algorithm =
          all_reduce_of(graph.type(graph.node(box).outputs[0]), mesh, step, c_.options.costs);
      collective.algorithm = algorithm_of(algorithm);
      staging = algorithm == AllReduceAlgorithm::flat     ? (n - 1) * r64(in_bytes)
                : algorithm == AllReduceAlgorithm::direct ? (n - 1) * r64(ceil_div(in.count(), n) * size_of(in.dtype))
                : algorithm == AllReduceAlgorithm::recursive
                    ? r64(ceil_div(in.count(), n) * size_of(in.dtype) * (n / 4))
                    : 0;
      break;
    }
    case Move::reduce_scatter:
      staging = sends + r64(out_bytes) + (direct ? (n - 1) * r64(out_bytes) : 2 * largest);
      break;
    case Move::all_gather: staging = r64(in_bytes) + receives; break;
    default: staging = sends + receives; break;
  }
  return collective;
}

void Communicators::note_transfer(NodeId id) {
  const Node& node = c_.graph.node(id);
  const TensorType& type = c_.graph.type(node.outputs[0]);
  const Mesh &from = c_.graph.mesh(node.inputs[0]), &to = c_.graph.mesh(node.outputs[0]);
  const Layout &from_layout = *c_.graph.value(node.inputs[0]).layout,
               &to_layout = *c_.graph.value(node.outputs[0]).layout;
  Transfer transfer;
  transfer.kind = CollectiveKind::transfer;
  transfer.axis = cat("mesh", c_.graph.value(node.inputs[0]).mesh, " to mesh", c_.graph.value(node.outputs[0]).mesh);
  transfer.value = cat(describe(c_.graph, c_.graph.value(node.inputs[0]).producer), " ", print(type, from, from_layout),
                       " -> ", print(type, to, to_layout));
  for (const TransferPiece& piece : transfer_pieces(type.shape, {from, from_layout}, {to, to_layout}))
    if (!piece.is_local && from.devices[static_cast<std::size_t>(piece.from)].rank == c_.options.rank)
      transfer.bytes += checked_mul(count_of(shape_of(piece.box)), size_of(type.dtype));
  transfer.bytes = checked_mul(transfer.bytes, node.acts);
  plan_.transfers.push_back(std::move(transfer));
}

void Communicators::transfer(NodeId box) {
  if (c_.graph.node(box).op->role == Role::transfer) return note_transfer(box);
  TransitionStep step = step_of(c_.graph, box);
  const Node& node = c_.graph.node(box);
  const TensorType& type = c_.graph.type(node.outputs[0]);
  const Mesh& mesh = c_.graph.mesh(node.outputs[0]);
  Transfer transfer_row;
  transfer_row.kind = collective_kind_of(step.move);
  transfer_row.axis = mesh.axes[static_cast<std::size_t>(step.axis)].name;
  NodeId producer = c_.graph.value(node.inputs[0]).producer;
  transfer_row.value =
      cat(describe(c_.graph, producer), " ", print(type, mesh, step.from), " -> ", print(type, mesh, step.to));
  for (int position = 0; position < mesh.size(); ++position)
    if (mesh.devices[static_cast<std::size_t>(position)].rank == c_.options.rank)
      transfer_row.bytes +=
          checked_mul(elements_sent(type, mesh, step, c_.options.costs, position), size_of(type.dtype));
  transfer_row.bytes = checked_mul(transfer_row.bytes, node.acts);
  plan_.transfers.push_back(std::move(transfer_row));
}

}  // namespace karez::passes
