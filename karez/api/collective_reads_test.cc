// Tests of reads, saves and writes that not all ranks request: an error on those that do, after which all ranks
// continue to train unaffected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <thread>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

HostArray batch(int ranks, int step) {
  HostArray out(TensorType{DType::f64, {2 * ranks, 3}});
  for (std::int64_t i = 0; i < out.count(); ++i)
    out.data<double>()[static_cast<std::size_t>(i)] = 0.1 * static_cast<double>((i + step) % 7);
  return out;
}

// One rank's training: a split weight, a loss that is whole everywhere, and split rows.
class Training {
 public:
  Training(World& world, int ranks)
      : world(world),
        mesh(world.mesh({{"d", ranks}})),
        weight_("weight", {DType::f64, {3, 2 * ranks}}, constant_init(0.5)),
        sgd_({weight_}, {.lr = 0.05}),
        step_(compile(mesh,
                      [this](Tensor x) {
                        const Tensor y = matmul(x, weight_), loss = sum(y * y);
                        sgd_.step(grad(loss, {weight_}));
                        return std::pair{loss, with_layout(x * 2.0, P("d", nullptr))};
                      },
                      {.rules = {{"weight", P(nullptr, "d")}}})),
        ranks_(ranks) {}

  Future step() { return step_(batch(ranks_, count_++)); }
  HostArray weight() { return world.read(weight_); }
  HostArray weight_here() { return world.read(weight_, {"train.cc", 7}); }

  World& world;
  DeviceMesh mesh;

 private:
  Parameter weight_;
  optim::SGD sgd_;
  Function step_;
  int ranks_, count_ = 0;
};

using StepHook = std::function<void(Training&, int rank, int step, Future&)>;

constexpr int steps = 6;

// The losses, then the weight, of each rank; `lone` is called before each step with the future of the previous step.
std::vector<std::vector<double>> trained(int ranks, const StepHook& lone, double peer_timeout = 30) {
  std::vector<std::vector<double>> out(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const Ranks& here) {
    World world({.ranks = here, .peer_timeout = peer_timeout});
    Training training(world, ranks);
    auto& mine = out[static_cast<std::size_t>(here.rank)];
    Future last = training.step();
    for (int i = 1; i < steps; ++i) {
      if (lone) lone(training, here.rank, i, last);
      mine.push_back(last.item());
      last = training.step();
    }
    mine.push_back(last.item());
    const HostArray weight = training.weight();
    mine.insert(mine.end(), weight.data<double>().begin(), weight.data<double>().end());
  });
  return out;
}

std::string refused(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user) << error.what();
    return error.what();
  }
  return "no error";
}

class CollectiveReads : public ::testing::TestWithParam<int> {};

TEST_P(CollectiveReads, ARequestOfOneRankIsRefusedAndTrainingIsUnaffected) {
  const int ranks = GetParam();
  const auto expected = trained(ranks, {});
  for (int reader = 0; reader < ranks; ++reader) {
    const auto seen = trained(ranks, [&](Training& training, int rank, int step, Future& last) {
      if (rank != reader) return;
      for (int again = 0; again < step; ++again)  // several in sequence
        EXPECT_THAT(refused([&] { training.weight_here(); }),
                    AllOf(StartsWith(cat("rank ", reader, " requests a read of variable 'weight', f64[3, ", 2 * ranks,
                                         "@d] (train.cc:7), but rank ")),
                          HasSubstr(" is at a call of function 'main' (collective_reads_test.cc:"),
                          HasSubstr("all may continue"), HasSubstr("read it on each, and print it on one")));
      EXPECT_THAT(refused([&] { last.value(1).read(); }), StartsWith(cat("rank ", reader, " requests a read of f64[")));
    });
    EXPECT_EQ(seen, expected) << "rank " << reader << " of " << ranks;
  }
}

TEST_P(CollectiveReads, ReadsOfDifferentValuesAreRefusedOnAllRanks) {
  const int ranks = GetParam();
  const auto expected = trained(ranks, {});
  const auto seen = trained(ranks, [&](Training& training, int rank, int, Future& last) {
    const std::string text = rank == 0 ? refused([&] { training.weight(); }) : refused([&] { last.value(1).read(); });
    EXPECT_THAT(text, AllOf(StartsWith(cat("rank ", rank, " requests a read of ")), HasSubstr(", but rank "),
                            HasSubstr(" is at a ")));
  });
  EXPECT_EQ(seen, expected);
}

INSTANTIATE_TEST_SUITE_P(Of, CollectiveReads, ::testing::Values(2, 3));

// Earlier calls are still running.
TEST(CollectiveReadsInFlight, AReadIsRefusedAndEarlierLaunchesSucceed) {
  on_ranks(2, [&](const Ranks& here) {
    World world({.ranks = here});
    Training training(world, 2);
    std::vector<Future> all;
    for (int i = 0; i < 40; ++i) {
      all.push_back(training.step());
      if (i % 4 == 3 && here.rank == 1)
        EXPECT_THAT(refused([&] { training.weight(); }), StartsWith("rank 1 requests a read of variable 'weight'"));
    }
    for (Future& future : all) EXPECT_GT(future.item(), 0);
  });
}

TEST(CollectiveReadsAtTheEnd, AReadIsRefusedIfOtherRanksAreAtTheEndOfTheirWorld) {
  for (int reader : {0, 1, 2}) {
    std::string text;
    on_ranks(3, [&](const Ranks& here) {
      World world({.ranks = here});
      Training training(world, 3);
      training.step().wait();
      if (here.rank == reader) text = refused([&] { training.weight(); });
    });
    EXPECT_THAT(text, AllOf(StartsWith(cat("rank ", reader, " requests a read of variable 'weight'")),
                            HasSubstr(" is at the end of its world")));
  }
}

// Tensors that are not computed yet: a request of one rank leaves them uncomputed, and all ranks can read them later.
TEST(CollectiveReadsOfExpressions, ReadsAreRefusedBeforeAnyComputation) {
  on_ranks(3, [&](const Ranks& here) {
    World world({.ranks = here});
    const Interactive scope(world.mesh("d=3"));
    auto f = compile(world.mesh("d=3"), [](Tensor x) { return with_layout(x * 2.0, {"d"}); });
    const Tensor y(f(HostArray::of<double>({3}, {1, 2, 3})).value());
    const Tensor twice = y * 2.0, total = sum(twice);
    for (int i = 0; i < 3; ++i) {
      if (here.rank == i)
        for (const Tensor& each : {twice, total})
          EXPECT_THAT(refused([&] { each.read(); }),
                      AllOf(StartsWith(cat("rank ", i, " requests a read of f64[")),
                            HasSubstr("which is computed for it (collective_reads_test.cc:")));
      f(HostArray::of<double>({3}, {1, 2, 3})).wait();
    }
    EXPECT_EQ(total.item(), 24);
    EXPECT_EQ(twice.read().data<double>()[2], 12);
    EXPECT_EQ(total.item(), 24) << "it is whole here, so that a single rank may read it";
    if (here.rank == 1) EXPECT_EQ(total.item(), 24);
  });
}

TEST(CollectiveSaves, ASaveOfOneRankIsRefusedAndNoFileIsWritten) {
  const std::string path = ::testing::TempDir() + cat("karez_asked_", getpid());
  for (int saver : {0, 1}) {
    const auto expected = trained(2, {});
    const auto seen = trained(2, [&](Training& training, int rank, int, Future&) {
      if (rank == saver)
        EXPECT_THAT(refused([&] { training.world.save(path); }),
                    AllOf(StartsWith(cat("rank ", saver, " requests a save (")),
                          HasSubstr("all ranks must save, and rank 0 writes the file")));
    });
    EXPECT_EQ(seen, expected);
    EXPECT_FALSE(std::filesystem::exists(path));
    for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir()))
      EXPECT_EQ(entry.path().string().find(path), std::string::npos) << entry.path();
  }
}

// The other ranks do nothing for a long time, as at a prompt: rank 0 prints a warning, and waits.
TEST(CollectiveReadsThatNoOtherRankJoins, WaitAndAWarningFollowsAfterPeerTimeout) {
  const auto expected = trained(2, {});
  ::testing::internal::CaptureStderr();
  const auto seen = trained(
      2,
      [](Training& training, int rank, int step, Future&) {
        if (step != 3) return;
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        EXPECT_EQ(training.weight_here().count(), 12);
      },
      1);
  EXPECT_EQ(seen, expected);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("a read of variable 'weight', f64[3, 4@d] (train.cc:7): rank 1 has not reached it for "));
}

// Interrupted by while_waiting, like Ctrl-C in Python.
TEST(CollectiveReadsThatAreInterrupted, InterruptedReadsAreCancelledAndAllRanksContinue) {
  std::atomic<bool> interrupt = false;
  struct Interrupted : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  on_ranks(2, [&](const Ranks& here) {
    WorldOptions options{.ranks = here};
    if (here.rank == 0)
      options.while_waiting = [&] {
        if (interrupt.exchange(false)) throw Interrupted("Ctrl-C");
      };
    World world(options);
    Training training(world, 2);
    const double first = training.step().item();
    if (here.rank == 0) {
      interrupt = true;
      EXPECT_THROW(training.weight(), Interrupted);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    EXPECT_LT(training.step().item(), 2 * first);
    EXPECT_EQ(training.weight().count(), 12);
  });
}

TEST(CollectiveWrites, DifferentValuesAreRefusedAndChangeNothing) {
  on_ranks(2, [&](const Ranks& here) {
    World world({.ranks = here});
    Parameter w("w", {DType::f64, {2}}, constant_init(1));
    auto f = compile(world.mesh("d=2"), [&](Tensor x) { return sum(x * w); });
    const HostArray ones = HostArray::of<double>({2}, {1, 1});
    EXPECT_EQ(f(ones).item(), 2);
    EXPECT_THAT(refused([&] {
                  world.write(w, HostArray::of<double>({2}, {1, 3.0 + here.rank}));
                }),
                StartsWith("ranks 0 and 1 differ in a write of variable 'w'"));
    EXPECT_EQ(f(ones).item(), 2);
    if (here.rank == 1)
      EXPECT_THAT(refused([&] { world.write(w, ones); }),
                  StartsWith("rank 1 requests a write of variable 'w', but rank 0 is at"));
    EXPECT_EQ(f(ones).item(), 2);
    world.write(w, HostArray::of<double>({2}, {1, 3}));
    EXPECT_EQ(f(ones).item(), 4);
  });
}

}  // namespace
}  // namespace karez
