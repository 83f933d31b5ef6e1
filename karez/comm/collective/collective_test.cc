// Tests of collectives on one thread: members advance in random order, only when woken, and the results are compared
// with those of a simple reference.
#include "karez/comm/collective/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>

#include "karez/base/test_error.h"
#include "karez/comm/collective/algorithms.h"
#include "karez/comm/collective/collective_check.h"
#include "karez/comm/collective/collective_counts.h"
#include "karez/comm/collective/collective_run.h"
#include "karez/comm/collective/program.h"
#include "karez/comm/collective/test_collectives.h"
#include "karez/comm/transport/test_local_hub.h"

namespace karez::comm {
namespace {
using namespace test;

// The members of one communicator. The driver advances a random member among those that were woken.
class World {
 public:
  explicit World(int n, int depth = 8) : hub(n, depth), woken_(static_cast<std::size_t>(n), false) {
    for (int m = 0; m < n; ++m) hub.endpoint(m).set_wake([this, m] { woken_[static_cast<std::size_t>(m)] = true; });
  }

  // Every member runs all cases in order, at its own pace. Returns false if some members are not done and none of them
  // is woken.
  bool run(std::deque<Case>& cases, std::mt19937_64& random, int idle_member = -1) {
    auto n = static_cast<std::size_t>(hub.members());
    std::vector<std::deque<CollectiveRun>> runs(n);
    for (std::size_t m = 0; m < n; ++m)
      for (Case& c : cases) runs[m].emplace_back(c.specs[m], hub.endpoint(static_cast<int>(m)));
    std::vector<std::size_t> position(n, 0);
    while (true) {
      std::vector<std::size_t> runnable;
      bool done = true;
      for (std::size_t m = 0; m < n; ++m) {
        if (position[m] == cases.size() || static_cast<int>(m) == idle_member) continue;
        done = false;
        if (!runs[m][position[m]].active() || woken_[m]) runnable.push_back(m);
      }
      if (done) return idle_member < 0;
      if (runnable.empty()) return false;
      std::size_t m = runnable[random() % runnable.size()];
      CollectiveRun& run = runs[m][position[m]];
      Case& c = cases[position[m]];
      woken_[m] = false;
      if (!run.active()) run.start(c.in[m].data(), c.out[m].data(), c.staging[m].data());
      if (run.advance()) ++position[m];
    }
  }

  TestHub hub;

 private:
  std::vector<bool> woken_;
};

std::string run_alone(Case c, std::uint64_t seed, int depth = 8) {
  std::mt19937_64 random(seed);
  World world(static_cast<int>(c.specs.size()), depth);
  std::deque<Case> cases;
  cases.push_back(std::move(c));
  if (!world.run(cases, random)) return cat(cases[0].name, ": no member can proceed");
  if (world.hub.bytes_sent() != cases[0].planned())
    return cat(cases[0].name, ": ", world.hub.bytes_sent(), " bytes were copied, planned ", cases[0].planned());
  for (const CollectiveSpec& spec : cases[0].specs)
    if (world.hub.endpoint(spec.member).bytes_sent() != bytes_sent(spec))
      return cat(cases[0].name, ": member ", spec.member, " sent an unexpected number of bytes");
  return cases[0].difference();
}

std::uint64_t base_seed() {
  const char* text = std::getenv("KAREZ_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

constexpr CollectiveAlgorithm all_algorithms[] = {CollectiveAlgorithm::ring, CollectiveAlgorithm::direct,
                                                  CollectiveAlgorithm::flat, CollectiveAlgorithm::recursive};
constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8};

TEST(Collective, AllReduceIsCorrectForEveryTypeKindAlgorithmAndSize) {
  for (DType dtype : all_dtypes)
    for (Op op : {Op::sum, Op::max, Op::min})
      for (CollectiveAlgorithm algorithm : all_algorithms)
        for (int n : {1, 2, 3, 4, 7, 8})
          for (std::int64_t elements : {0, 1, 3, 16, 257}) {
            if (dtype == DType::b8 && op == Op::sum) continue;
            for (std::int64_t chunk : {1, 64, 1 << 18})
              ASSERT_EQ(run_alone(make_all_reduce(dtype, op, n, {elements}, algorithm, chunk, 3), 5), "");
          }
}

TEST(Collective, BoxesAreMovedCorrectlyForEveryTypeAndAlgorithm) {
  std::vector<std::int64_t> parts{3, 2, 0, 2}, to_parts{1, 0, 4, 1};
  for (DType dtype : all_dtypes)
    for (CollectiveAlgorithm algorithm : all_algorithms)
      for (int dim : {0, 1, 2})
        for (std::int64_t chunk : {5, 1 << 18}) {
          Op op = dtype == DType::b8 ? Op::max : Op::sum;
          ASSERT_EQ(run_alone(make_all_gather(dtype, {2, 3, 2}, dim, parts, algorithm, chunk, 7), 1), "");
          ASSERT_EQ(run_alone(make_reduce_scatter(dtype, op, {2, 3, 2}, dim, parts, algorithm, chunk, 7), 2), "");
          ASSERT_EQ(
              run_alone(make_all_to_all(dtype, {2, 3, 2}, dim, parts, (dim + 1) % 3, to_parts, algorithm, chunk, 7), 3),
              "");
        }
}

TEST(Collective, RandomCasesAreCorrectInRandomOrder) {
  std::uint64_t seed = base_seed();
  RecordProperty("seed", std::to_string(seed));
  for (std::uint64_t i = 0; i < 1500; ++i) {
    std::uint64_t s = seed * 1000003 + i;
    int n = 1 + static_cast<int>(s % 6), depth = s % 3 == 0 ? 1 : 8;
    ASSERT_EQ(run_alone(random_case(n, s), s, depth), "")
        << "seed " << seed << ", case " << i << " (KAREZ_SEED repeats it)";
  }
}

TEST(Collective, ConsecutiveCollectivesOverTheSameLinksDoNotMix) {
  std::uint64_t seed = base_seed();
  for (std::uint64_t i = 0; i < 60; ++i) {
    std::mt19937_64 random(seed * 7919 + i);
    int n = 2 + static_cast<int>(random() % 4);
    World world(n);
    std::deque<Case> cases;
    std::int64_t planned = 0;
    for (int k = 0; k < 12; ++k) {
      cases.push_back(random_case(n, random()));
      planned += cases.back().planned();
    }
    ASSERT_TRUE(world.run(cases, random)) << "seed " << seed << ", round " << i;
    for (Case& c : cases) ASSERT_EQ(c.difference(), "") << "seed " << seed << ", round " << i;
    EXPECT_EQ(world.hub.bytes_sent(), planned);
  }
}

// Checks the message for which each await waits, and the number of messages sent before it.
TEST(Collective, ARingForwardsEachChunkBeforeTheNextArrives) {
  constexpr std::int64_t chunks = 4;
  for (int n : {2, 3, 5}) {
    const View view(DType::f32, {n * chunks * 16});
    const CollectiveSpec spec{.kind = CollectiveKind::all_reduce,
                              .algorithm = CollectiveAlgorithm::ring,
                              .member = n - 1,
                              .members = n,
                              .chunk = 64,
                              .in = view,
                              .out = view,
                              .reduce = [](std::byte*, const std::byte*, std::int64_t) {}};
    std::int64_t sent = 0, waits = 0;
    for (const Instruction& step : make_program(spec, 64).steps) {
      sent += step.opcode == Instruction::Opcode::send;
      if (step.opcode != Instruction::Opcode::await_received) continue;
      EXPECT_EQ(step.count, ++waits);
      EXPECT_EQ(sent, std::min(chunks + waits - 1, chunks * (2 * n - 2)))
          << "at the await of message " << waits << " with " << n << " members";
    }
    EXPECT_EQ(waits, chunks * (2 * n - 2));
  }
}

TEST(Collective, ARunCanBeRepeated) {
  Case c = make_all_reduce(DType::f32, Op::sum, 3, {100}, CollectiveAlgorithm::direct, 64, 1);
  World world(3);
  std::deque<CollectiveRun> runs;
  for (int m = 0; m < 3; ++m) runs.emplace_back(c.specs[m], world.hub.endpoint(m));
  for (int repeat = 0; repeat < 3; ++repeat) {
    c.clear();
    for (int m = 0; m < 3; ++m) runs[m].start(c.in[m].data(), c.out[m].data(), c.staging[m].data());
    for (bool done = false; !done;) {
      done = true;
      for (CollectiveRun& run : runs) done = run.advance() && done;
    }
    EXPECT_EQ(c.difference(), "");
  }
  EXPECT_EQ(world.hub.bytes_sent(), 3 * planned_bytes(CollectiveKind::all_reduce, CollectiveAlgorithm::direct, 3, 400));
}

TEST(Collective, ASlowMemberDelaysTheOthersWithoutBlockingThem) {
  for (CollectiveAlgorithm algorithm : all_algorithms) {
    Case c = make_all_reduce(DType::f64, Op::sum, 4, {1000}, algorithm, 256, 1);
    TestHub hub(4);
    std::deque<CollectiveRun> runs;
    for (int m = 0; m < 4; ++m) runs.emplace_back(c.specs[m], hub.endpoint(m));
    for (int m = 0; m < 3; ++m) runs[m].start(c.in[m].data(), c.out[m].data(), c.staging[m].data());
    for (int i = 0; i < 100; ++i)
      for (int m = 0; m < 3; ++m) ASSERT_FALSE(runs[m].advance());  // returns, although a member is missing
    runs[3].start(c.in[3].data(), c.out[3].data(), c.staging[3].data());
    for (bool done = false; !done;) {
      done = true;
      for (CollectiveRun& run : runs) done = run.advance() && done;
    }
    EXPECT_EQ(c.difference(), "");
  }
}

// Tests the driver: a run without member 1 must not end.
TEST(Collective, AMissingMemberIsNoticedByTheDriver) {
  World world(3);
  std::mt19937_64 random(1);
  std::deque<Case> cases;
  cases.push_back(make_all_reduce(DType::f32, Op::sum, 3, {10}, CollectiveAlgorithm::direct, 64, 1));
  EXPECT_FALSE(world.run(cases, random, 1));
}

TEST(Collective, PlannedBytesAreTheSumOverMembers) {
  std::vector<std::int64_t> parts{3, 2, 0, 2};
  for (CollectiveAlgorithm algorithm : all_algorithms) {
    for (int n : {1, 2, 4, 5})
      EXPECT_EQ(make_all_reduce(DType::f32, Op::sum, n, {11}, algorithm, 64, 1).planned(),
                planned_bytes(CollectiveKind::all_reduce, algorithm, n, 44));
    EXPECT_EQ(make_all_gather(DType::f32, {5, 1}, 1, parts, algorithm, 64, 1).planned(),
              planned_bytes(CollectiveKind::all_gather, algorithm, 4, 140));
    EXPECT_EQ(make_reduce_scatter(DType::f32, Op::sum, {5, 1}, 1, parts, algorithm, 64, 1).planned(),
              planned_bytes(CollectiveKind::reduce_scatter, algorithm, 4, 140));
    EXPECT_EQ(make_all_to_all(DType::f32, {1, 1}, 0, {1, 1, 1, 1}, 1, {2, 2, 2, 2}, algorithm, 64, 1).planned(),
              planned_bytes(CollectiveKind::all_to_all, algorithm, 4, 4 * 8 * 4, 4 * 8));
  }
}

TEST(Collective, ASendAndAReceiveAreAnAllToAllWithOneBox) {
  TestHub hub(2);
  View view(DType::i32, {3});
  std::vector<std::int32_t> from{4, 5, 6}, to{0, 0, 0};
  CollectiveSpec sender, receiver;
  sender.kind = receiver.kind = CollectiveKind::all_to_all;
  sender.members = receiver.members = 2;
  sender.in = receiver.out = view;
  sender.out = receiver.in = View(DType::i32, {0});
  sender.sends = {{}, whole_box(view)};
  sender.receives = {{}, {}};
  receiver.member = 1;
  receiver.sends = {{}, {}};
  receiver.receives = {whole_box(view), {}};
  CollectiveRun a(sender, hub.endpoint(0)), b(receiver, hub.endpoint(1));
  a.start(reinterpret_cast<std::byte*>(from.data()), nullptr, nullptr);
  b.start(nullptr, reinterpret_cast<std::byte*>(to.data()), nullptr);
  EXPECT_FALSE(a.advance());
  EXPECT_TRUE(b.advance());
  EXPECT_TRUE(a.advance());
  EXPECT_EQ(to, from);
}

TEST(Collective, StagingMatchesTheFormula) {
  auto staging = [](const Case& c, int member) { return staging_bytes(c.specs[static_cast<std::size_t>(member)]); };
  EXPECT_EQ(staging(make_all_reduce(DType::f32, Op::sum, 4, {100}, CollectiveAlgorithm::ring, 1 << 18, 1), 2), 0);
  EXPECT_EQ(staging(make_all_reduce(DType::f32, Op::sum, 4, {100}, CollectiveAlgorithm::direct, 1 << 18, 1), 2),
            3 * 128);
  EXPECT_EQ(staging(make_all_reduce(DType::f32, Op::sum, 4, {100}, CollectiveAlgorithm::direct, 64, 1), 2), 3 * 64);
  EXPECT_EQ(staging(make_all_reduce(DType::f32, Op::sum, 4, {100}, CollectiveAlgorithm::flat, 64, 1), 2), 3 * 448);
  EXPECT_EQ(staging(make_all_reduce(DType::f32, Op::sum, 1, {100}, CollectiveAlgorithm::flat, 64, 1), 0), 0);
  EXPECT_EQ(staging(make_all_reduce(DType::f32, Op::sum, 2, {100}, CollectiveAlgorithm::recursive, 64, 1), 0), 0);
  EXPECT_EQ(staging(make_all_reduce(DType::f32, Op::sum, 8, {100}, CollectiveAlgorithm::recursive, 64, 1), 0),
            128);  // the first 2 of the 8 ranges have 26 of the 100 elements
  // The staging for each peer begins at a new cache line.
  Case flat = make_all_reduce(DType::f32, Op::sum, 4, {100}, CollectiveAlgorithm::flat, 64, 1);
  int parts = 0;
  for (const Instruction& step : make_program(flat.specs[2], 4).steps)
    if (step.opcode == Instruction::Opcode::receive && step.to.memory == BufferKind::staging) {
      EXPECT_EQ(step.to.offset % 64, 0);
      ++parts;
    }
  EXPECT_EQ(parts, 2) << "member 0's part is received into the result";

  CollectiveSpec gather;  // rows are received directly into `out`; columns are unpacked
  gather.kind = CollectiveKind::all_gather;
  gather.members = 2;
  gather.in = View(DType::f32, {2, 40});
  gather.out = View(DType::f32, {4, 40});
  gather.sends = {whole_box(gather.in), whole_box(gather.in)};
  gather.receives = {{{0, 0}, {2, 40}}, {{2, 0}, {2, 40}}};
  EXPECT_EQ(staging_bytes(gather), 0);
  gather.out = View(DType::f32, {2, 80});
  gather.receives = {{{0, 0}, {2, 40}}, {{0, 40}, {2, 40}}};
  EXPECT_EQ(staging_bytes(gather), 320);
}

TEST(Collective, SpecsThatCannotRunAreRejected) {
  auto expect_error = [](CollectiveSpec spec, const std::string& text) {
    try {
      check(spec);
      ADD_FAILURE() << "not rejected: " << text;
    } catch (const Error& error) { EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what(); }
  };
  CollectiveSpec good = make_all_reduce(DType::f32, Op::sum, 2, {4}, CollectiveAlgorithm::direct, 64, 1).specs[0];
  check(good);
  CollectiveSpec bad = good;
  bad.member = 2;
  expect_error(bad, "all_reduce: member must be from 0 to 1, got 2");
  bad = good;
  bad.reduce = nullptr;
  expect_error(bad, "all_reduce: no reduce function for f32[4]");
  bad = good;
  bad.chunk = 0;
  expect_error(bad, "chunk must be at least 1 byte, got 0 bytes");
  bad = good;
  bad.out = View(DType::f32, {5});
  expect_error(bad, "input f32[4] and output f32[5] must be the same dense view");
  bad = good;
  bad.in = bad.out = View(DType::f32, {4}, {2});
  expect_error(bad, "dense view");
  bad = good;
  bad.out.dtype = DType::i32;
  expect_error(bad, "data types differ: input f32[4], output i32[4]");

  good = make_all_gather(DType::f32, {2, 2}, 0, {1, 2}, CollectiveAlgorithm::direct, 64, 1).specs[0];
  check(good);
  bad = good;
  bad.receives[1].begin[0] = 2;
  expect_error(bad, "all_gather: receives[1] must be inside f32[3, 2], got the box [2, 0]+[2, 2]");
  bad = good;
  bad.sends.pop_back();
  expect_error(bad, "expected a send box and a receive box for each of 2 members, got 1 and 2");
  bad = good;
  bad.sends[1].size[0] = 0;
  expect_error(bad, "all_gather: sends[1] must be all of f32[1, 2], got the box [0, 0]+[0, 2]");
  bad = good;
  std::swap(bad.receives[0], bad.receives[1]);
  expect_error(bad, "member 0 sends itself a box of [1, 2] but receives one of [2, 2]");
  EXPECT_THROW(collective_kind_from("all_reduced"), Error);
  EXPECT_THROW(collective_algorithm_from("tree"), Error);
  for (CollectiveAlgorithm a : all_algorithms) EXPECT_EQ(collective_algorithm_from(name_of(a)), a);
  for (CollectiveKind k : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
                           CollectiveKind::all_to_all})
    EXPECT_EQ(collective_kind_from(name_of(k)), k);
}

TEST(Collective, ARunRejectsAnotherMembersEndpointAndASecondStart) {
  Case c = make_all_reduce(DType::f32, Op::sum, 2, {4}, CollectiveAlgorithm::direct, 64, 1);
  TestHub hub(2);
  EXPECT_EQ(base::error_of([&] { CollectiveRun(c.specs[0], hub.endpoint(1)); }),
            "all_reduce: member 0 of 2 was given the endpoint of member 1 of 2");
  TestHub larger_hub(3);
  EXPECT_EQ(base::error_of([&] { CollectiveRun(c.specs[1], larger_hub.endpoint(1)); }),
            "all_reduce: member 1 of 2 was given the endpoint of member 1 of 3");
  CollectiveRun run(c.specs[0], hub.endpoint(0));
  EXPECT_THROW(run.start(c.in[0].data(), c.out[0].data(), nullptr), Error);
  run.start(c.in[0].data(), c.out[0].data(), c.staging[0].data());
  EXPECT_THROW(run.start(c.in[0].data(), c.out[0].data(), c.staging[0].data()), Error);
}

}  // namespace
}  // namespace karez::comm
