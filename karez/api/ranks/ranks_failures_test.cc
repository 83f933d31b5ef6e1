// Tests of several ranks, one of which fails, hangs or runs a different program: all ranks report this and its cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

HostArray input() { return HostArray::of<double>({3}, {1, 2, 3}); }

double measure_seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(RanksThatDiffer, ADifferentProgramOnOneRankIsRejectedBeforeItRunsAndTheErrorShowsTheFirstDifference) {
  const double seconds = measure_seconds([] {
    const auto texts = errors_by_rank(3, [](World& world, int rank) {
      auto f = compile(world.mesh("d=3"), [&](Tensor x) { return sum(rank == 2 ? exp(x) : tanh(x)); });
      f(input()).wait();
    });
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("the ranks do not run the same program: rank "),
                                  HasSubstr(" reaches a plan of function 'main' (ranks_"),
                                  HasSubstr("but rank 2 reaches a plan of function 'main'"))));
    for (const std::string& text : texts) {  // rank 2 is compared with the first rank that reaches the plan
      EXPECT_THAT(text, ::testing::ContainsRegex("\nrank [01]:   %1 = tanh\\(%0\\) : f64\\[3\\]"))
          << "the error must show the first lines in which the graphs differ";
      EXPECT_THAT(text, ::testing::ContainsRegex("\nrank 2:   %1 = exp\\(%0\\) : f64\\[3\\]"));
    }
  });
  EXPECT_LT(seconds, 15) << "the error must not wait for the peer timeout of 30 s";
}

TEST(RanksThatFail, AnExceptionInTheProgramOfOneRankIsReportedOnTheOthers) {
  std::vector<std::string> texts(2);
  std::string thrown;
  try {
    on_ranks(2, [&](const Ranks& job) {
      World world({.ranks = job});
      auto f = compile(world.mesh("d=2"), [](Tensor x) { return sum(x); });
      EXPECT_EQ(f(input()).item(), 6);
      if (job.rank == 1) throw std::runtime_error("the disk is full");
      texts[0] = error_of([&] {
        for (;;) f(input()).wait();
      });
    });
  } catch (const std::runtime_error& error) { thrown = error.what(); }
  EXPECT_EQ(thrown, "the disk is full");
  EXPECT_THAT(texts[0], HasSubstr("rank 1: it ends its world, because an exception was thrown"));
}

// A read at `blocked_position` blocks until `released` is ready.
struct BlockingSource : Source {
  BlockingSource(std::int64_t blocked_position, std::shared_future<void> released)
      : blocked_position(blocked_position),
        released(std::move(released)) {}
  std::int64_t blocked_position;
  std::shared_future<void> released;
  TensorType type() const override { return {DType::f64, {4}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    if (position == blocked_position) released.wait();
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<double>()[i] = 1;
  }
};

TEST(RanksThatFail, LaunchesOnOtherRanksFailWithTheCause) {
  std::promise<void> launch, release;
  const std::shared_future<void> launched = launch.get_future().share(), released = release.get_future().share();
  std::string text, thrown;
  try {
    on_ranks(2, [&](const Ranks& job) {
      World world({.ranks = job});
      auto f = compile(world.mesh("d=2"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
      const Future future = f(Feed{std::make_shared<BlockingSource>(job.rank == 0 ? 0 : -1, released), 0});
      if (job.rank == 1) {
        launched.wait();
        throw std::runtime_error("the disk is full");
      }
      launch.set_value();
      EXPECT_NE(error_of([&] { world.barrier(); }), "no error");
      release.set_value();
      text = error_of([&] { future.wait(); });
    });
  } catch (const std::runtime_error& error) { thrown = error.what(); }
  EXPECT_EQ(thrown, "the disk is full");
  EXPECT_THAT(text, AllOf(HasSubstr("rank 1: it ends its world, because an exception was thrown"),
                          Not(EndsWith("was aborted: "))));
}

// A source that fails after `delay` milliseconds.
struct FailingSource : Source {
  FailingSource(ErrorKind kind, const char* text, int delay) : kind(kind), text(text), delay(delay) {}
  ErrorKind kind;
  const char* text;
  std::chrono::milliseconds delay;
  TensorType type() const override { return {DType::f64, {4}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const tensor::TensorRef&) const override {
    std::this_thread::sleep_for(delay);
    fail(kind, text);
  }
};

// A link of rank 1 ends, as if rank 0 at its other end had left because rank 2 failed. The next call must report the
// error of rank 2.
TEST(RanksThatFail, TheNextCallReportsWhyThePreviousLaunchFailed) {
  const std::shared_ptr<Source> numbers = std::make_shared<PositionSource>(-1);
  const std::shared_ptr<Source> sources[] = {
      numbers, std::make_shared<FailingSource>(ErrorKind::peer, "link to rank 0: it ended", 0),
      std::make_shared<FailingSource>(ErrorKind::hang, "the disk is full", 100)};
  std::string text;
  // The ranks have half a second to exchange the error, which may be too short on a busy machine.
  for (int attempt = 0; attempt < 5 && text.find("the disk is full") == text.npos; ++attempt) {
    on_ranks(3, [&](const Ranks& job) {
      World world({.ranks = job});
      auto f = compile(world.mesh("d=3"), [](Tensor x) {
        return with_layout(x * 2.0, {"d"});
      });  // sends nothing, so a launch fails on one rank only
      const std::string first = error_of([&] {
        f(Feed{numbers, 0}).wait();
        f(Feed{sources[job.rank], 1});
        if (job.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the launch has failed by then
        for (int i = 2;; ++i) f(Feed{numbers, i});
      });
      if (job.rank == 1) text = first;
    });
  }
  EXPECT_THAT(text, HasSubstr("the disk is full"));
}

// Returns the errors of three ranks. Rank `stuck` hangs in its source at batch 3. The source is released when `enough`
// is true for the number of ranks that have ended, or after `seconds`.
std::vector<std::string> errors_with_hanging_rank(int stuck, double call_timeout,
                                                  const std::function<bool(int ended)>& enough, double seconds) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> ended = 0;
  std::thread releaser([&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!enough(ended) && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    release.set_value();
  });
  std::vector<std::string> texts(3);
  on_ranks(3, [&](const Ranks& job) {
    World world({.ranks = job, .peer_timeout = 0.4, .call_timeout = call_timeout});
    auto f = compile(world.mesh("d=3"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
    auto rows = std::make_shared<BlockingSource>(job.rank == stuck ? 3 : -1, released);
    texts[static_cast<std::size_t>(job.rank)] = error_of([&] {
      for (int i = 0; i < 6; ++i) f(Feed{rows, i}).wait();
    });
    ++ended;
  });
  releaser.join();
  return texts;
}

TEST(RanksThatHang, ACallThatDoesNotEndIsReportedOnAllRanksWithActorAndLine) {
  for (int stuck : {0, 2}) {
    const auto texts = errors_with_hanging_rank(
        stuck, 0.4, [](int ended) { return ended == 2; }, 60);  // the stuck rank ends when its read returns
    EXPECT_THAT(texts, Each(AllOf(HasSubstr(cat("rank ", stuck, " (")), HasSubstr(" has been inside a"),
                                  HasSubstr("of launch 4 (its source, ranks_failures_test.cc:"),
                                  ::testing::ContainsRegex("\n  rank [012] waits for (rank [012]|the others): "))))
        << stuck;
  }
}

TEST(RanksThatHang, ALongCallWithinTheTimeoutIsNotAHang) {
  const auto texts = errors_with_hanging_rank(
      1, 60, [](int ended) { return ended > 0; }, 2);
  EXPECT_THAT(texts, Each("no error"));
}

TEST(RanksThatHang, ALongTimeBetweenLaunchesIsNotAHang) {
  const auto texts = errors_by_rank(
      3,
      [](World& world, int rank) {
        auto f = compile(world.mesh("d=3"), [](Tensor x) { return sum(x); });
        for (int i = 0; i < 3; ++i) {
          if (rank == i) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
          f(input()).wait();
          world.barrier();
        }
      },
      0.3);
  EXPECT_THAT(texts, Each("no error"));
}

// Rank 0 cannot write a checkpoint: the folder does not exist, or the disk becomes full (simulated by a limit on the
// file size).
TEST(RanksThatFail, ASaveThatRank0CannotWriteFailsOnAllRanksAndTheWorldRemainsUsable) {
  const std::string valid_path = ::testing::TempDir() + cat("karez_save_", getpid());
  signal(SIGXFSZ, SIG_IGN);
  std::barrier barrier_of_ranks(3);
  on_ranks(3, [&](const Ranks& job) {
    World world({.ranks = job});
    Parameter weight("weight", {DType::f64, {3, 500}}, constant_init(1));
    optim::SGD sgd({weight}, {.lr = 1});
    auto grow = compile(world.mesh("d=3"),
                        [&](Tensor x) {
                          sgd.step({broadcast_to(-x, {3, 500})});
                          return sum(weight);
                        },
                        {.rules = {{"weight", P("d", nullptr)}}});
    grow(HostArray::of<double>({}, {1})).wait();
    const auto expect_failed_save = [&](const std::string& path, const char* reason) {
      const std::string text = error_of([&] { world.save(path); });
      EXPECT_THAT(text, HasSubstr(cat("cannot write ", path, ": ", reason))) << job.rank;
      EXPECT_EQ(text.starts_with("rank 0: "), job.rank != 0) << text;
    };
    expect_failed_save("/no/such/folder", "No such file or directory");
    rlimit old{};
    if (job.rank == 0) {
      getrlimit(RLIMIT_FSIZE, &old);
      const rlimit small{1000, old.rlim_max};
      setrlimit(RLIMIT_FSIZE, &small);
    }
    barrier_of_ranks.arrive_and_wait();
    expect_failed_save(valid_path, "File too large");
    barrier_of_ranks.arrive_and_wait();
    if (job.rank == 0) setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_EQ(grow(HostArray::of<double>({}, {1})).item(), 3 * 500 * 3.0);
    for (int i = 0; i < 3; ++i) world.save(valid_path);
    EXPECT_TRUE(std::filesystem::exists(valid_path));
  });
  std::filesystem::remove(valid_path);
}

}  // namespace
}  // namespace karez
