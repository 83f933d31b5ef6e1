// Converts a box node to a Collective: its pieces are intersections of the members' boxes.
#include "karez/passes/lowering/emit_collective.h"

#include <algorithm>

#include "karez/sbp/transfer.h"

namespace karez::passes {
namespace {

PeerBox piece(int peer, const Box& box, const Box& within) {
  PeerBox out;
  out.peer = peer;
  for (std::size_t d = 0; d < box.size(); ++d) {
    out.begin.push_back(empty(box) ? 0 : box[d].begin - within[d].begin);
    out.size.push_back(empty(box) ? 0 : box[d].size());
  }
  return out;
}

std::int64_t bytes_of(const PeerBox& piece, DType dtype) { return count_of(piece.size) * size_of(dtype); }

// Elements that the device at `position` sends in a step, by the formula of comm. On a ring a member forwards what it
// receives, so the number depends on the next member's part too.
std::int64_t elements_sent(const TensorType& type, const Mesh& mesh, const TransitionStep& step, const CostTable& costs,
                           int position) {
  const Shape& shape = type.shape;
  const std::vector<int> group = mesh.group(step.axis, position);
  const int n = static_cast<int>(group.size());
  const int member = static_cast<int>(std::find(group.begin(), group.end(), position) - group.begin()),
            next = (member + 1) % n;
  const bool ring = uses_ring(n);
  const Box from = local_box(shape, mesh, step.from, position), to = local_box(shape, mesh, step.to, position);
  const std::int64_t held = count_of(shape_of(from)), kept = count_of(shape_of(to));
  auto range = [&](int m) { return part_of({0, held}, n, m).size(); };  // elements that member m reduces
  switch (step.move) {
    case Move::all_reduce:
      switch (all_reduce_of(type, mesh, step, costs)) {
        case AllReduceAlgorithm::direct: return held + (n - 2) * range(member);
        case AllReduceAlgorithm::ring: return 2 * held - range(member) - range(next);
        case AllReduceAlgorithm::flat: return (n - 1) * held;
        case AllReduceAlgorithm::recursive: {
          std::int64_t back = 0;
          for (int have = 1; have < n; have *= 2)
            for (int r = member / have * have; r < member / have * have + have; ++r) back += range(r);
          return held - range(member) + back;
        }
      }
      return 0;
    case Move::all_gather:
      if (ring)
        return kept - count_of(shape_of(local_box(shape, mesh, step.from, group[static_cast<std::size_t>(next)])));
      return (n - 1) * held;
    case Move::reduce_scatter: return held - kept;
    case Move::all_to_all: return held - count_of(shape_of(intersect(from, to)));
    default: return 0;
  }
}

}  // namespace

TransitionStep step_of(const Graph& graph, NodeId box) {
  const Node& node = graph.node(box);
  return {static_cast<int>(node.attrs.integer("axis")), move_from(node.attrs.text("move")),
          *graph.value(node.inputs[0]).layout, *graph.value(node.outputs[0]).layout};
}

std::string kind_of_transfer(const Node& node) {
  return node.op->role == Role::transfer ? "transfer" : node.attrs.text("move");
}

CommunicatorId Communicators::communicator(NodeId node, std::vector<DeviceName> members) {
  const CommunicatorKey key = communicator_key(c_.graph, node);
  auto [at, fresh] = ids_.try_emplace({key, members[0]}, CommunicatorId(plan_.communicators.size()));
  if (!fresh) return at->second;
  Communicator out;
  for (DeviceName name : members) out.members.push_back({name.rank, name.device, "cpu"});
  std::vector<std::pair<int, std::string>> names;
  for (NodeId n : c_.graph.nodes.ids()) {
    const Node& other = c_.graph.nodes[n];
    if (c_.slot_assignment.turns[n].empty() || communicator_key(c_.graph, n) != key) continue;
    for (int turn : c_.slot_assignment.turns[n])
      names.emplace_back(turn, cat(kind_of_transfer(other), " %", other.outputs[0]));
  }
  std::sort(names.begin(), names.end());
  for (auto& name : names) out.sequence.push_back(std::move(name.second));
  plan_.communicators.push_back(std::move(out));
  return at->second;
}

// A transfer between two meshes is an all_to_all among the devices of both, in which most pieces are empty.
Collective Communicators::transfer_between(NodeId id, DeviceName device, std::int64_t& staging) {
  const Graph& graph = c_.graph;
  const Node& node = graph.node(id);
  const Mesh &from = graph.mesh(node.inputs[0]), &to = graph.mesh(node.outputs[0]);
  const Layout &before = *graph.value(node.inputs[0]).layout, &after = *graph.value(node.outputs[0]).layout;
  TensorType type = graph.type(node.outputs[0]);
  if (type.shape.empty())
    type.shape = {1};  // a scalar is sent as an array of one element: a piece without dimensions could not be empty
  std::vector<DeviceName> members = from.devices;
  for (DeviceName name : to.devices)
    if (std::find(members.begin(), members.end(), name) == members.end()) members.push_back(name);
  Collective made;
  made.communicator = communicator(id, members);
  made.kind = "transfer";
  made.turns = c_.slot_assignment.turns[id];
  made.where = describe(graph, graph.value(node.inputs[0]).producer);
  for (std::size_t m = 0; m < members.size(); ++m) made.sends.push_back({static_cast<int>(m), {}, {}});
  made.receives = made.sends;
  auto member = [&](DeviceName name) {
    return static_cast<std::size_t>(std::find(members.begin(), members.end(), name) - members.begin());
  };
  const int mine_before = position_on(from, device), mine_after = position_on(to, device);
  for (const TransferPiece& each : transfer_pieces(type.shape, {from, before}, {to, after})) {
    const DeviceName sender = from.devices[static_cast<std::size_t>(each.from)],
                     receiver = to.devices[static_cast<std::size_t>(each.to)];
    auto note = [&](std::vector<PeerBox>& list, DeviceName peer, const Box& within) {
      PeerBox& there = list[member(peer)];
      require(there.size.empty(), "emit: a transfer has two pieces between the same two devices: ", made.where);
      there = piece(there.peer, each.box, within);
      staging += round_up(bytes_of(there, type.dtype), 64);
    };
    if (sender == device) note(made.sends, receiver, local_box(type.shape, from, before, mine_before));
    if (receiver == device) note(made.receives, sender, local_box(type.shape, to, after, mine_after));
  }
  return made;
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
  Collective made;
  std::vector<DeviceName> members;
  for (int member : group) members.push_back(mesh.devices[static_cast<std::size_t>(member)]);
  made.communicator = communicator(box, members);
  made.kind = std::string(name_of(step.move));
  made.turns = c_.slot_assignment.turns[box];
  made.where = describe(graph, graph.value(graph.node(box).inputs[0]).producer);
  Sbp from = step.from[static_cast<std::size_t>(step.axis)];
  if (from.is_partial()) made.reduce = std::string(name_of(from.reduce));
  Box my_in = local_box(shape, mesh, step.from, position), my_out = local_box(shape, mesh, step.to, position);
  for (std::size_t m = 0; m < group.size() && step.move != Move::all_reduce; ++m) {
    Box their_in = local_box(shape, mesh, step.from, group[m]), their_out = local_box(shape, mesh, step.to, group[m]);
    int peer = static_cast<int>(m);
    made.sends.push_back(piece(peer, intersect(my_in, their_out), my_in));
    made.receives.push_back(piece(peer, intersect(their_in, my_out), my_out));
  }
  // The bound of comm's staging formula if no box is contiguous.
  auto r64 = [](std::int64_t bytes) { return round_up(bytes, 64); };
  auto n = static_cast<std::int64_t>(group.size());
  std::int64_t in_bytes = in.count() * size_of(in.dtype), out_bytes = out.count() * size_of(out.dtype), sends = 0,
               receives = 0, largest = 0;
  for (const PeerBox& p : made.sends)
    sends += r64(bytes_of(p, in.dtype)), largest = std::max(largest, r64(bytes_of(p, in.dtype)));
  for (const PeerBox& p : made.receives) receives += r64(bytes_of(p, in.dtype));
  const bool direct = !uses_ring(static_cast<int>(n));
  made.algorithm = direct ? "direct" : "ring";
  switch (step.move) {
    case Move::all_reduce: {
      const AllReduceAlgorithm algorithm =
          all_reduce_of(graph.type(graph.node(box).outputs[0]), mesh, step, c_.options.costs);
      made.algorithm = std::string(name_of(algorithm));
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
  return made;
}

void Communicators::note_transfer(NodeId id) {
  const Node& node = c_.graph.node(id);
  const TensorType& type = c_.graph.type(node.outputs[0]);
  const Mesh &from = c_.graph.mesh(node.inputs[0]), &to = c_.graph.mesh(node.outputs[0]);
  const Layout &before = *c_.graph.value(node.inputs[0]).layout, &after = *c_.graph.value(node.outputs[0]).layout;
  Transfer out;
  out.kind = "transfer";
  out.axis = cat("mesh", c_.graph.value(node.inputs[0]).mesh, " to mesh", c_.graph.value(node.outputs[0]).mesh);
  out.value = cat(describe(c_.graph, c_.graph.value(node.inputs[0]).producer), " ", print(type, from, before), " -> ",
                  print(type, to, after));
  for (const TransferPiece& piece : transfer_pieces(type.shape, {from, before}, {to, after}))
    if (!piece.is_local && from.devices[static_cast<std::size_t>(piece.from)].rank == c_.options.rank)
      out.bytes += checked_mul(count_of(shape_of(piece.box)), size_of(type.dtype));
  out.bytes = checked_mul(out.bytes, node.acts);
  plan_.transfers.push_back(std::move(out));
}

void Communicators::transfer(NodeId box) {
  if (c_.graph.node(box).op->role == Role::transfer) return note_transfer(box);
  TransitionStep step = step_of(c_.graph, box);
  const Node& node = c_.graph.node(box);
  const TensorType& type = c_.graph.type(node.outputs[0]);
  const Mesh& mesh = c_.graph.mesh(node.outputs[0]);
  Transfer out;
  out.kind = std::string(name_of(step.move));
  out.axis = mesh.axes[static_cast<std::size_t>(step.axis)].name;
  NodeId producer = c_.graph.value(node.inputs[0]).producer;
  out.value = cat(describe(c_.graph, producer), " ", print(type, mesh, step.from), " -> ", print(type, mesh, step.to));
  for (int position = 0; position < mesh.size(); ++position)
    if (mesh.devices[static_cast<std::size_t>(position)].rank == c_.options.rank)
      out.bytes += checked_mul(elements_sent(type, mesh, step, c_.options.costs, position), size_of(type.dtype));
  out.bytes = checked_mul(out.bytes, node.acts);
  plan_.transfers.push_back(std::move(out));
}

}  // namespace karez::passes
