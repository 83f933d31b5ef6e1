// Tests of reads, saves and writes that not all ranks request: the ranks that request one get an error, and training
// continues on all ranks as if there had been no request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
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

// The training of one rank, with a split weight. A step returns a replicated loss and split rows.
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
  HostArray weight_read_at_line() { return world.read(weight_, {"train.cc", 7}); }

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

// Returns for each rank its losses, followed by the elements of its weight. `hook` is called before each step with the
// future of the previous step.
std::vector<std::vector<double>> train(int ranks, const StepHook& hook, double peer_timeout = 30) {
  std::vector<std::vector<double>> out(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const Ranks& job) {
    World world({.ranks = job, .peer_timeout = peer_timeout});
    Training training(world, ranks);
    auto& local_results = out[static_cast<std::size_t>(job.rank)];
    Future last = training.step();
    for (int i = 1; i < steps; ++i) {
      if (hook) hook(training, job.rank, i, last);
      local_results.push_back(last.item());
      last = training.step();
    }
    local_results.push_back(last.item());
    const HostArray weight = training.weight();
    local_results.insert(local_results.end(), weight.data<double>().begin(), weight.data<double>().end());
  });
  return out;
}

std::string user_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user) << error.what();
    return error.what();
  }
  return "no error";
}

class CollectiveReads : public ::testing::TestWithParam<int> {};

TEST_P(CollectiveReads, AReadThatOnlyOneRankRequestsIsRejectedAndTrainingIsUnaffected) {
  const int ranks = GetParam();
  const auto expected = train(ranks, {});
  for (int reader = 0; reader < ranks; ++reader) {
    const auto results = train(ranks, [&](Training& training, int rank, int step, Future& last) {
      if (rank != reader) return;
      for (int repeat = 0; repeat < step; ++repeat)  // several reads in sequence
        EXPECT_THAT(user_error([&] { training.weight_read_at_line(); }),
                    AllOf(StartsWith(cat("rank ", reader, " requests a read of variable 'weight', f64[3, ", 2 * ranks,
                                         "@d] (train.cc:7), but rank ")),
                          HasSubstr(" is at a call of function 'main' (collective_reads_test.cc:"),
                          HasSubstr("all may continue"), HasSubstr("read it on each, and print it on one")));
      EXPECT_THAT(user_error([&] { last.value(1).read(); }),
                  StartsWith(cat("rank ", reader, " requests a read of f64[")));
    });
    EXPECT_EQ(results, expected) << "rank " << reader << " of " << ranks;
  }
}

TEST_P(CollectiveReads, ReadsOfDifferentValuesAreRejectedOnAllRanks) {
  const int ranks = GetParam();
  const auto expected = train(ranks, {});
  const auto results = train(ranks, [&](Training& training, int rank, int, Future& last) {
    const std::string text =
        rank == 0 ? user_error([&] { training.weight(); }) : user_error([&] { last.value(1).read(); });
    EXPECT_THAT(text, AllOf(StartsWith(cat("rank ", rank, " requests a read of ")), HasSubstr(", but rank "),
                            HasSubstr(" is at a ")));
  });
  EXPECT_EQ(results, expected);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveReads, ::testing::Values(2, 3));

// Earlier calls are still running when a read is requested.
TEST(CollectiveReadsInFlight, AReadIsRejectedAndEarlierLaunchesSucceed) {
  on_ranks(2, [&](const Ranks& job) {
    World world({.ranks = job});
    Training training(world, 2);
    std::vector<Future> futures;
    for (int i = 0; i < 40; ++i) {
      futures.push_back(training.step());
      if (i % 4 == 3 && job.rank == 1) {
        EXPECT_THAT(user_error([&] { training.weight(); }), StartsWith("rank 1 requests a read of variable 'weight'"));
      }
    }
    for (Future& future : futures) EXPECT_GT(future.item(), 0);
  });
}

TEST(CollectiveReadsAtTheEnd, AReadIsRejectedIfOtherRanksAreAtTheEndOfTheirWorld) {
  for (int reader : {0, 1, 2}) {
    std::string text;
    on_ranks(3, [&](const Ranks& job) {
      World world({.ranks = job});
      Training training(world, 3);
      training.step().wait();
      if (job.rank == reader) text = user_error([&] { training.weight(); });
    });
    EXPECT_THAT(text, AllOf(StartsWith(cat("rank ", reader, " requests a read of variable 'weight'")),
                            HasSubstr(" is at the end of its world")));
  }
}

// If only one rank reads tensors that are not computed yet, they stay uncomputed, and all ranks can read them later.
TEST(CollectiveReadsOfExpressions, ReadsAreRejectedBeforeAnyComputation) {
  on_ranks(3, [&](const Ranks& job) {
    World world({.ranks = job});
    const Interactive scope(world.mesh("d=3"));
    auto f = compile(world.mesh("d=3"), [](Tensor x) { return with_layout(x * 2.0, {"d"}); });
    const Tensor y(f(HostArray::of<double>({3}, {1, 2, 3})).value());
    const Tensor twice = y * 2.0, total = sum(twice);
    for (int i = 0; i < 3; ++i) {
      if (job.rank == i) {
        for (const Tensor& tensor : {twice, total})
          EXPECT_THAT(user_error([&] { tensor.read(); }),
                      AllOf(StartsWith(cat("rank ", i, " requests a computation and read of f64[")),
                            HasSubstr("] (collective_reads_test.cc:"),
                            HasSubstr("all ranks must take part in computations outside of compiled functions: read "
                                      "the value on every rank, and print it on one")));
      }
      f(HostArray::of<double>({3}, {1, 2, 3})).wait();
    }
    EXPECT_EQ(total.item(), 24);
    EXPECT_EQ(twice.read().data<double>()[2], 12);
    EXPECT_EQ(total.item(), 24) << "each rank holds the complete value, so a single rank may read it";
    if (job.rank == 1) { EXPECT_EQ(total.item(), 24); }
  });
}

TEST(CollectiveSaves, ASaveThatOnlyOneRankRequestsIsRejectedAndNoFileIsWritten) {
  const std::string path = ::testing::TempDir() + cat("karez_rejected_save_", getpid());
  for (int saver : {0, 1}) {
    const auto expected = train(2, {});
    const auto results = train(2, [&](Training& training, int rank, int, Future&) {
      if (rank == saver) {
        EXPECT_THAT(user_error([&] { training.world.save(path); }),
                    AllOf(StartsWith(cat("rank ", saver, " requests a save (")),
                          HasSubstr("all ranks must save, and rank 0 writes the file")));
      }
    });
    EXPECT_EQ(results, expected);
    EXPECT_FALSE(std::filesystem::exists(path));
    for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir()))
      EXPECT_EQ(entry.path().string().find(path), std::string::npos) << entry.path();
  }
}

// Waits, but not forever, until `text` stands in the file that captures standard error.
void await_in_captured_stderr(const std::string& text) {
  for (int tries = 0; tries < 600; ++tries) {
    std::ifstream file("/proc/self/fd/2");
    if (std::string(std::istreambuf_iterator<char>(file), {}).find(text) != std::string::npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// The other rank does nothing for a long time, as at an interactive prompt. Rank 0 prints a warning and keeps waiting.
// That time is not fixed, because on a busy machine rank 0 may begin to wait late.
TEST(CollectiveReadsThatNoOtherRankJoins, AReadWaitsAndPrintsAWarningAfterPeerTimeout) {
  const std::string warning = "a read of variable 'weight', f64[3, 4@d] (train.cc:7): rank 1 has not reached it for ";
  const auto expected = train(2, {});
  ::testing::internal::CaptureStderr();
  const auto results = train(
      2,
      [&](Training& training, int rank, int step, Future&) {
        if (step != 3) return;
        if (rank == 1) await_in_captured_stderr(warning);
        EXPECT_EQ(training.weight_read_at_line().count(), 12);
      },
      1);
  EXPECT_EQ(results, expected);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(warning));
}

// while_waiting interrupts the read, as Ctrl-C does in Python.
TEST(CollectiveReadsThatAreInterrupted, InterruptedReadsAreCancelledAndAllRanksContinue) {
  std::atomic<bool> interrupt = false;
  struct Interrupted : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  on_ranks(2, [&](const Ranks& job) {
    WorldOptions options{.ranks = job};
    if (job.rank == 0)
      options.while_waiting = [&] {
        if (interrupt.exchange(false)) throw Interrupted("Ctrl-C");
      };
    World world(options);
    Training training(world, 2);
    const double first = training.step().item();
    if (job.rank == 0) {
      interrupt = true;
      EXPECT_THROW(training.weight(), Interrupted);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    EXPECT_LT(training.step().item(), 2 * first);
    EXPECT_EQ(training.weight().count(), 12);
  });
}

TEST(CollectiveWrites, DifferentValuesAreRejectedAndChangeNothing) {
  on_ranks(2, [&](const Ranks& job) {
    World world({.ranks = job});
    Parameter w("w", {DType::f64, {2}}, constant_init(1));
    auto f = compile(world.mesh("d=2"), [&](Tensor x) { return sum(x * w); });
    const HostArray ones = HostArray::of<double>({2}, {1, 1});
    EXPECT_EQ(f(ones).item(), 2);
    EXPECT_THAT(user_error([&] {
                  world.write(w, HostArray::of<double>({2}, {1, 3.0 + job.rank}));
                }),
                StartsWith("ranks 0 and 1 differ in a write of variable 'w'"));
    EXPECT_EQ(f(ones).item(), 2);
    if (job.rank == 1) {
      EXPECT_THAT(user_error([&] { world.write(w, ones); }),
                  StartsWith("rank 1 requests a write of variable 'w', but rank 0 is at"));
    }
    EXPECT_EQ(f(ones).item(), 2);
    world.write(w, HostArray::of<double>({2}, {1, 3}));
    EXPECT_EQ(f(ones).item(), 4);
  });
}

}  // namespace
}  // namespace karez
