// Tests of the collectives in a plan: turns, peer boxes, staging and planned bytes.
#include "karez/passes/lowering/emit_collective.h"

#include <gtest/gtest.h>

#include "karez/passes/lowering/test_emit.h"

namespace karez::passes {
namespace {

using testing::compiled;
using testing::meshes;
using testing::one_transfer;

TEST(Emit, MembersOfACommunicatorHaveTheSameTurns) {
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    // The collectives of all members, by communicator and turn.
    std::map<std::pair<int, int>, std::vector<const Collective*>> turns;
    for (const Actor& actor : c.plan.actors)
      if (actor.collective)
        turns[{actor.collective->communicator.index, actor.collective->turns[0]}].push_back(&*actor.collective);
    for (const auto& [turn, members] : turns) {
      const Communicator& group = c.plan.communicators[CommunicatorId(turn.first)];
      EXPECT_EQ(members.size(), group.members.size());
      EXPECT_LT(turn.second, static_cast<int>(group.sequence.size()));
      for (const Collective* collective : members)
        EXPECT_EQ(std::tuple(collective->kind, collective->reduce, collective->where),
                  std::tuple(members[0]->kind, members[0]->reduce, members[0]->where));
    }
  }
}

// Returns the bytes that a member sends according to its peer boxes. An all_reduce sends its flat memory twice, except
// the range that the member reduces. On a ring a member first sends its part and then forwards every part that it
// receives except the last, which belongs to the next member.
std::int64_t sent_by(const Plan& plan, const Collective& c, int member) {
  auto members = static_cast<std::int64_t>(plan.communicators[c.communicator].members.size());
  std::int64_t size = size_of(c.in.view.dtype), total = 0;
  const bool ring = c.algorithm == CollectiveAlgorithm::ring;
  const int next = (member + 1) % static_cast<int>(members);
  if (ring && c.kind == CollectiveKind::all_gather) {
    for (const PeerBox& box : c.receives)
      if (box.peer != next) total += count_of(box.size) * size;
    return total;
  }
  if (ring && c.kind == CollectiveKind::all_reduce) {
    for (int range = 0; range < static_cast<int>(members); ++range) {
      const std::int64_t bytes = part_of({0, c.in.view.count()}, static_cast<int>(members), range).size() * size;
      // The range is sent when it is reduced, and again when the result is distributed.
      total += (range == member ? 0 : bytes) + (range == next ? 0 : bytes);
    }
    return total;
  }
  if (c.kind == CollectiveKind::all_reduce) {
    std::int64_t count = c.in.view.count(), own_range = part_of({0, count}, static_cast<int>(members), member).size();
    return (count - own_range + (members - 1) * own_range) * size;
  }
  for (const PeerBox& box : c.sends)
    if (box.peer != member) total += count_of(box.size) * size;
  return total;
}

TEST(Emit, PlannedBytesAreTheSumOfThePeerBoxes) {
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    std::int64_t planned = 0, sent = 0;
    for (const Transfer& transfer : c.plan.transfers) planned += transfer.bytes;
    for (const Actor& actor : c.plan.actors) {
      if (!actor.collective) continue;
      const PlanDevice& device = c.plan.devices[c.plan.stream(actor.stream).device];
      const auto& members = c.plan.communicators[actor.collective->communicator].members;
      sent += sent_by(c.plan, *actor.collective,
                      static_cast<int>(std::find(members.begin(), members.end(), device) - members.begin()));
    }
    EXPECT_EQ(planned, sent) << mesh;
  }
}

TEST(Emit, SentAndReceivedPeerBoxesMatchAndCoverTheResult) {
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    std::map<std::pair<int, int>, std::map<int, const Collective*>> by_turn;
    for (const Actor& actor : c.plan.actors) {
      if (!actor.collective) continue;
      const auto& members = c.plan.communicators[actor.collective->communicator].members;
      const PlanDevice& device = c.plan.devices[c.plan.stream(actor.stream).device];
      int member = static_cast<int>(std::find(members.begin(), members.end(), device) - members.begin());
      by_turn[{actor.collective->communicator.index, actor.collective->turns[0]}][member] = &*actor.collective;
    }
    for (const auto& [turn, members] : by_turn)
      for (const auto& [m, collective] : members) {
        if (collective->kind == CollectiveKind::all_reduce) continue;
        std::int64_t received = 0;
        for (const auto& [k, peer_collective] : members) {
          EXPECT_EQ(collective->sends[static_cast<std::size_t>(k)].size,
                    peer_collective->receives[static_cast<std::size_t>(m)].size);
          received += count_of(collective->receives[static_cast<std::size_t>(k)].size);
        }
        EXPECT_EQ(received, collective->out.view.count() * (collective->kind == CollectiveKind::reduce_scatter
                                                                ? static_cast<std::int64_t>(members.size())
                                                                : 1));
      }
  }
}

// Returns the bytes of staging that a collective requires if none of its boxes is contiguous, by the formulas in its
// documentation.
std::int64_t required_staging(const Communicator& group, const Collective& c, int member) {
  auto r64 = [](std::int64_t bytes) { return round_up(bytes, 64); };
  auto n = static_cast<std::int64_t>(group.members.size());
  if (n == 1) return 0;
  std::int64_t size = size_of(c.in.view.dtype), chunk = std::max(group.chunk / size, std::int64_t{1}) * size;
  std::int64_t in = c.in.view.count() * size, out = c.out.view.count() * size;
  auto sum = [&](const std::vector<PeerBox>& boxes, bool own) {
    std::int64_t total = 0;
    for (const PeerBox& p : boxes)
      if (own || p.peer != member) total += r64(count_of(p.size) * size);
    return total;
  };
  std::int64_t largest = 0;
  for (const PeerBox& p : c.sends) largest = std::max(largest, r64(count_of(p.size) * size));
  bool direct = c.algorithm == CollectiveAlgorithm::direct;
  if (c.kind == CollectiveKind::all_reduce && c.algorithm == CollectiveAlgorithm::flat) return (n - 1) * r64(in);
  if (c.kind == CollectiveKind::all_reduce)
    return direct ? (n - 1) * r64(std::min(chunk, ceil_div(c.in.view.count(), n) * size)) : 0;
  if (c.kind == CollectiveKind::reduce_scatter)
    return sum(c.sends, true) + r64(out) + (direct ? (n - 1) * r64(std::min(chunk, out)) : 2 * largest);
  if (c.kind == CollectiveKind::all_gather) return r64(in) + sum(c.receives, false);
  return sum(c.sends, false) + sum(c.receives, false);
}

TEST(Emit, PlannedStagingIsOneToTwoTimesTheStagingThatTheCollectiveRequires) {
  struct Case {
    const char* move;
    Sbp from, to;
  };
  int checked = 0;
  for (Case k : {Case{"all_gather", S(1), B()},
                 {"all_to_all", S(0), S(1)},
                 {"reduce_scatter", P(), S(1)},
                 {"all_reduce", P(), B()}})
    for (const char* mesh : {"d=2", "d=3", "d=9"}) {  // nine members use the ring
      Compilation c = one_transfer(Mesh::parse(mesh), k.move, k.from, k.to, {10, 11});
      for (const Actor& actor : c.plan.actors) {
        if (!actor.collective) continue;
        const Communicator& group = c.plan.communicators[CommunicatorId(0)];
        int member = c.plan.stream(actor.stream).device.index;
        std::int64_t required = required_staging(group, *actor.collective, member),
                     planned = actor.collective->staging ? actor.collective->staging->view.bytes() : 0;
        EXPECT_GE(planned, required) << k.move << " " << mesh;
        EXPECT_LE(planned, 2 * std::max<std::int64_t>(required, 64 * 9)) << k.move << " " << mesh;
        ++checked;
      }
    }
  EXPECT_EQ(checked, 4 * (2 + 3 + 9));
}

// Each of two ranks has half of the devices. It compiles the program separately and plans the bytes that its devices
// send. The sum over the ranks must be the total of the step.
TEST(Emit, PlannedBytesOfAllRanksAddUpToTheBytesOfTheStep) {
  struct Case {
    const char* mesh;
    Move move;
    Sbp from, to;
    Shape shape;
  };
  for (const Case& k :
       {Case{"d=4", Move::all_gather, S(1), B(), {6, 7}},
        {"d=4", Move::all_to_all, S(0), S(1), {5, 7}},
        {"d=4", Move::reduce_scatter, P(), S(0), {6, 3}},
        {"d=4", Move::all_reduce, P(Reduce::max), B(), {5, 3}},
        {"d=12", Move::all_gather, S(0), B(), {17, 2}},
        {"d=12", Move::all_reduce, P(), B(), {5, 7}},
        {"d=12", Move::all_reduce, P(), B(), {5, 3}},           // parts of 2 and 1: the ranks send different amounts
        {"d=12", Move::reduce_scatter, P(), S(0), {17, 2}}}) {  // twelve members use the ring
    Mesh mesh = Mesh::parse(k.mesh);
    const int per_rank = mesh.size() / 2;
    for (int p = 0; p < mesh.size(); ++p) mesh.devices[static_cast<std::size_t>(p)] = {p / per_rank, p % per_rank};
    std::int64_t total = 0;
    for (int rank = 0; rank < 2; ++rank) {
      Compilation c = one_transfer(mesh, std::string(name_of(k.move)), k.from, k.to, k.shape, rank);
      ASSERT_EQ(c.plan.transfers.size(), 1u) << print(c.plan);
      std::int64_t sent = 0;
      for (const Actor& actor : c.plan.actors) {
        if (!actor.collective || name_of(actor.collective->kind) != name_of(k.move)) continue;
        const PlanDevice& device = c.plan.devices[c.plan.stream(actor.stream).device];
        EXPECT_EQ(device.rank, rank);
        const auto& members = c.plan.communicators[actor.collective->communicator].members;
        sent += sent_by(c.plan, *actor.collective,
                        static_cast<int>(std::find(members.begin(), members.end(), device) - members.begin()));
      }
      EXPECT_EQ(c.plan.transfers[0].bytes, sent) << k.mesh << " " << name_of(k.move) << " on rank " << rank;
      total += c.plan.transfers[0].bytes;
    }
    // Each member receives all elements of all other members, so the total follows from sizes alone.
    const std::int64_t n = mesh.size(), all = 4 * count_of(k.shape);
    // Bytes that stay on their device: rows are split into 2 1 1 1, columns into 2 2 2 1.
    const std::int64_t kept_bytes = 4 * (2 * 2 + 1 * 2 + 1 * 2 + 1 * 1);
    const std::int64_t expected = k.move == Move::all_to_all   ? all - kept_bytes
                                  : k.move == Move::all_reduce ? 2 * (n - 1) * all
                                                               : (n - 1) * all;
    EXPECT_EQ(total, expected) << k.mesh << " " << name_of(k.move);
  }
}

}  // namespace
}  // namespace karez::passes
