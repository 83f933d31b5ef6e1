// Tests of several ranks of which one fails or runs another program: all of them report the failure and its cause.
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
#include "karez/api/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// The error of each rank, in the order of ranks; "no error" for none.
std::vector<std::string> errors_by_rank(int ranks, const std::function<void(World&, int rank)>& body,
                                        double peer_timeout = 30) {
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const Ranks& here) {
    World world({.ranks = here, .peer_timeout = peer_timeout});
    out[static_cast<std::size_t>(here.rank)] = error_of([&] { body(world, here.rank); });
  });
  return out;
}

HostArray three() { return HostArray::of<double>({3}, {1, 2, 3}); }

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(RanksThatDiffer, ARankWithAnotherProgramIsRefusedBeforeItRunsAndTheFirstDifferenceIsReported) {
  const double seconds = seconds_of([] {
    const auto texts = errors_by_rank(3, [](World& world, int rank) {
      auto f = compile(world.mesh("d=3"), [&](Tensor x) { return sum(rank == 2 ? exp(x) : tanh(x)); });
      f(three()).wait();
    });
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("the ranks do not run the same program: rank "),
                                  HasSubstr(" reaches a plan of function 'main' (ranks_"),
                                  HasSubstr("but rank 2 reaches a plan of function 'main'"))));
    for (const std::string& text : texts) {  // rank 2 against the first rank to reach it
      EXPECT_THAT(text, ::testing::ContainsRegex("\nrank [01]:   %1 = tanh\\(%0\\) : f64\\[3\\]"))
          << "the lines of the graphs";
      EXPECT_THAT(text, ::testing::ContainsRegex("\nrank 2:   %1 = exp\\(%0\\) : f64\\[3\\]"));
    }
  });
  EXPECT_LT(seconds, 15) << "without waiting for the timeout of 30 s for a silent peer";
}

// Numbers; batch `bad` cannot be read.
struct PositionSource : Source {
  explicit PositionSource(std::int64_t bad) : bad(bad) {}
  std::int64_t bad;
  TensorType type() const override { return {DType::f64, {4}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    require(ErrorKind::data, position != bad, "batch ", position, " is damaged");
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<double>()[i] = static_cast<double>(position);
  }
};

TEST(RanksThatFail, ASourceThatThrowsOnOneRankFailsTheLaunchOnAll) {
  for (int bad : {0, 1, 2}) {
    std::vector<int> good(3, 0);
    const auto texts = errors_by_rank(3, [&](World& world, int rank) {
      auto numbers = std::make_shared<PositionSource>(rank == bad ? 5 : -1);
      Parameter w("w", {DType::f64, {4}}, constant_init(1));
      auto f = compile(world.mesh("d=3"), [&](Tensor x) {
        return std::pair{sum(with_layout(x, {"d"}) * w), with_layout(x, {"d"}) * 2.0};
      });
      for (int i = 0;; ++i) {
        Future both = f(Feed{numbers, i});
        EXPECT_EQ(both.item(), 4.0 * i) << "results are complete";
        good[static_cast<std::size_t>(rank)] = i;
      }
    });
    EXPECT_THAT(texts, Each(HasSubstr("batch 5 is damaged"))) << bad;
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(good[static_cast<std::size_t>(rank)], 4) << "no rank has a result of the failed launch";
      if (rank == bad) EXPECT_THAT(texts[static_cast<std::size_t>(rank)], Not(HasSubstr("rank ")));
      else EXPECT_THAT(texts[static_cast<std::size_t>(rank)], HasSubstr(cat("rank ", bad, ": ")));
    }
  }
}

TEST(RanksThatFail, InputsOfAFailedLaunchAreFreed) {
  EXPECT_THAT(errors_by_rank(2,
                             [](World& world, int rank) {
                               auto numbers = std::make_shared<PositionSource>(rank == 1 ? 2 : -1);
                               const std::weak_ptr<PositionSource> fed = numbers;
                               Parameter w("w", {DType::f64, {4}}, constant_init(1));
                               {
                                 auto f = compile(world.mesh("d=2"),
                                                  [&](Tensor x) { return sum(with_layout(x, {"d"}) * w); });
                                 error_of([&] {
                                   for (int i = 0;; ++i) f(Feed{numbers, i}).wait();
                                 });
                               }
                               numbers.reset();
                               world.held_bytes();  // frees objects of ended launches
                               EXPECT_TRUE(fed.expired());
                               EXPECT_EQ(world.read("w").data<double>()[3], 1);
                             }),
              Each("no error"));
}

// A row of its position twelve times; one batch is damaged.
struct WidePositionSource : Source {
  explicit WidePositionSource(std::int64_t bad) : bad(bad) {}
  TensorType type() const override { return {DType::f64, {12}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    require(ErrorKind::data, position != bad, "batch ", position, " is damaged");
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<double>()[i] = static_cast<double>(position);
  }
  const std::int64_t bad;
};

// One rank cannot read some batches; training between them gives the losses of a run without these batches.
TEST(RanksThatFail, ACallThatFailsBecauseOfItsDataHasNoEffect) {
  for (const int ranks : {2, 3}) {
    std::vector<std::vector<double>> losses(2);
    for (const bool fails : {false, true}) {
      on_ranks(ranks, [&](const Ranks& here) {
        World world({.devices = 2, .ranks = here});
        Parameter w("w", {DType::f64, {12}}, constant_init(1)), steps("steps", {DType::f64, {}}, constant_init(0));
        auto f = compile(world.mesh(cat("d=", 2 * ranks)), [&](Tensor x) {
          update(steps, steps + 1);  // which depends on no data
          Tensor loss = sum(with_layout(x, {"d"}) * w);
          update(w, w - grad(loss, {w})[0] * 0.1);
          return loss + steps;
        });
        for (int i = 0; i < 12; ++i) {
          const auto good = std::make_shared<WidePositionSource>(-1);
          if (fails && i % 3 == 1) {
            const auto bad = std::make_shared<WidePositionSource>(here.rank == i % ranks ? i : -1);
            // Two further calls run at the same time.
            std::vector<Future> later = {f(Feed{bad, i}), f(Feed{good, i}), f(Feed{good, i})};
            const std::string own = error_of([&] { later[0].wait(); });
            EXPECT_THAT(own, HasSubstr(cat("batch ", i, " is damaged")));
            EXPECT_EQ(own.find("rank ") == 0, here.rank != i % ranks) << own;
            for (const Future& one : {later[1], later[2]})
              EXPECT_THAT(error_of([&] { one.wait(); }), HasSubstr("did not run, because an earlier launch failed: "));
          }
          const double loss = f(Feed{good, i}).item();
          if (here.rank == 0) losses[fails].push_back(loss);
        }
      });
    }
    EXPECT_EQ(losses[0], losses[1]) << ranks;
  }
}

// Ranks 0 and 1 train; rank 2 has no device of their mesh and no plan at first, but gets the same errors.
TEST(RanksThatFail, DataFailuresAreReportedOnARankWithoutADevice) {
  std::vector<std::vector<std::string>> messages(3);
  std::vector<std::vector<double>> losses(3), expected(3);
  for (const bool fails : {false, true}) {
    on_ranks(3, [&](const Ranks& here) {
      World world({.ranks = here});
      Parameter w("w", {DType::f64, {12}}, constant_init(1));
      auto f = compile(world.mesh("d=2"), [&](Tensor x) {
        Tensor loss = sum(with_layout(x, {"d"}) * w);
        update(w, w - grad(loss, {w})[0] * 0.1);
        return loss;
      });
      auto g = compile(world.mesh("e=3"), [](Tensor x) { return x * 2.0; });
      auto hear = [&](const std::function<void()>& call) {
        messages[static_cast<std::size_t>(here.rank)].push_back(error_of(call));
      };
      auto& told = (fails ? losses : expected)[static_cast<std::size_t>(here.rank)];
      for (int i = 0; i < 6; ++i) {
        const auto good = std::make_shared<WidePositionSource>(-1),
                   bad = std::make_shared<WidePositionSource>(here.rank == 1 ? i : -1);
        if (fails) {
          hear([&] { f(Feed{bad, i}).wait(); });
          hear([&] { f(Feed{bad, i}).value().wait(); });
          hear([&] { f(Feed{bad, i}).item(); });
          hear([&] { g(f(Feed{bad, i}).value()).item(); });
          const Future first = f(Feed{bad, i}), second = f(Feed{good, i});
          hear([&] { second.wait(); });
          hear([&] { first.wait(); });
          const Future known = f(Feed{bad, i});
          hear([&] { known.wait(); });
          hear([&] { g(known.value()).wait(); });
          hear([&] { known.item(); });
          hear([&] { known.item(); });
        }
        told.push_back(f(Feed{good, i}).item());
        told.push_back(g(f(Feed{good, i}).value()).item());
      }
    });
  }
  EXPECT_THAT(losses, Each(expected[0]));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(messages[rank].size(), 60u);
    for (std::size_t i = 0; i < 60; ++i) {
      const bool known =
          rank == 2 &&
          i % 10 > 6;  // the error was reported before, and the rank holds no part of the result that is used again
      EXPECT_THAT(messages[rank][i], HasSubstr(known ? "did not run, because an earlier launch failed"
                                                     : cat("batch ", i / 10, " is damaged")))
          << rank << " " << i;
    }
  }
}

// The program does not wait for the failed call: a later call throws, the same one on all ranks.
TEST(RanksThatFail, DataFailuresAreReportedOnAllRanksAtTheSameCall) {
  std::vector<int> thrown(3, -1);
  on_ranks(3, [&](const Ranks& here) {
    World world({.ranks = here});
    auto whole = compile(world.mesh("d=3"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
    auto f = compile(world.mesh("d=2"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
    const auto rows = std::make_shared<WidePositionSource>(here.rank == 0 ? 5 : -1);
    for (int i = 0; i < 120; ++i) {
      try {
        (i % 3 == 0 ? whole : f)(Feed{rows, i});
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("an earlier launch failed: "));
        EXPECT_EQ(thrown[static_cast<std::size_t>(here.rank)], -1);
        thrown[static_cast<std::size_t>(here.rank)] = i;
      }
    }
  });
  EXPECT_GT(thrown[0], 5);
  EXPECT_THAT(thrown, Each(thrown[0]));
}

// The batch is not sent to other ranks: without the agreement rank 0 would not notice the failure.
TEST(RanksThatFail, ALaunchThatSendsNothingAlsoFailsOnAll) {
  const auto texts = errors_by_rank(2, [&](World& world, int rank) {
    auto numbers = std::make_shared<PositionSource>(rank == 1 ? 0 : -1);
    auto f = compile(world.mesh("d=2"), [](Tensor x) { return with_layout(x * 2.0, {"d"}); });
    f(Feed{numbers, 0}).value().local();
  });
  EXPECT_THAT(texts, Each(HasSubstr("batch 0 is damaged")));
}

TEST(RanksThatFail, AnExceptionInTheProgramOfOneRankIsReportedOnTheOthers) {
  std::vector<std::string> texts(2);
  std::string thrown;
  try {
    on_ranks(2, [&](const Ranks& here) {
      World world({.ranks = here});
      auto f = compile(world.mesh("d=2"), [](Tensor x) { return sum(x); });
      EXPECT_EQ(f(three()).item(), 6);
      if (here.rank == 1) throw std::runtime_error("the disk is full");
      texts[0] = error_of([&] {
        for (;;) f(three()).wait();
      });
    });
  } catch (const std::runtime_error& error) { thrown = error.what(); }
  EXPECT_EQ(thrown, "the disk is full");
  EXPECT_THAT(texts[0], HasSubstr("rank 1: it ends its world, because an exception was thrown"));
}

// A read at that position blocks until it is released.
struct BlockingSource : Source {
  BlockingSource(std::int64_t at, std::shared_future<void> until) : at(at), until(std::move(until)) {}
  std::int64_t at;
  std::shared_future<void> until;
  TensorType type() const override { return {DType::f64, {4}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    if (position == at) until.wait();
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<double>()[i] = 1;
  }
};

TEST(RanksThatFail, LaunchesOnOtherRanksFailWithTheCause) {
  std::promise<void> launch, release;
  const std::shared_future<void> launched = launch.get_future().share(), released = release.get_future().share();
  std::string text, thrown;
  try {
    on_ranks(2, [&](const Ranks& here) {
      World world({.ranks = here});
      auto f = compile(world.mesh("d=2"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
      const Future future = f(Feed{std::make_shared<BlockingSource>(here.rank == 0 ? 0 : -1, released), 0});
      if (here.rank == 1) {
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

// A source that fails after this many milliseconds.
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

// A link of rank 1 ends, as if the rank at its other end had left because of a third rank. The next call must name the
// third rank.
TEST(RanksThatFail, TheNextCallReportsWhyThePreviousLaunchFailed) {
  const std::shared_ptr<Source> numbers = std::make_shared<PositionSource>(-1);
  const std::shared_ptr<Source> sources[] = {
      numbers, std::make_shared<FailingSource>(ErrorKind::peer, "link to rank 0: it ended", 0),
      std::make_shared<FailingSource>(ErrorKind::hang, "the disk is full", 100)};
  std::string text;
  // The ranks have half a second to exchange the error, which may be too short on a busy machine.
  for (int attempt = 0; attempt < 5 && text.find("the disk is full") == text.npos; ++attempt) {
    on_ranks(3, [&](const Ranks& here) {
      World world({.ranks = here});
      auto f = compile(world.mesh("d=3"), [](Tensor x) {
        return with_layout(x * 2.0, {"d"});
      });  // sends nothing: a launch fails on one rank only
      const std::string first = error_of([&] {
        f(Feed{numbers, 0}).wait();
        f(Feed{sources[here.rank], 1});
        if (here.rank == 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its launch has failed by then
        for (int i = 2;; ++i) f(Feed{numbers, i});
      });
      if (here.rank == 1) text = first;
    });
  }
  EXPECT_THAT(text, HasSubstr("the disk is full"));
}

// The errors of ranks of which one hangs in its source from batch 3. It is released when `enough` holds for the number
// of ranks that have ended, or after this many seconds.
std::vector<std::string> errors_with_hanging_rank(int stuck, double call_timeout,
                                                  const std::function<bool(int told)>& enough, double seconds) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> ended = 0;
  std::thread helper([&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!enough(ended) && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    release.set_value();
  });
  std::vector<std::string> texts(3);
  on_ranks(3, [&](const Ranks& here) {
    World world({.ranks = here, .peer_timeout = 0.4, .call_timeout = call_timeout});
    auto f = compile(world.mesh("d=3"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
    auto rows = std::make_shared<BlockingSource>(here.rank == stuck ? 3 : -1, released);
    texts[static_cast<std::size_t>(here.rank)] = error_of([&] {
      for (int i = 0; i < 6; ++i) f(Feed{rows, i}).wait();
    });
    ++ended;
  });
  helper.join();
  return texts;
}

TEST(RanksThatHang, ACallThatDoesNotEndIsReportedOnAllWithActorAndLine) {
  for (int stuck : {0, 2}) {
    const auto texts = errors_with_hanging_rank(
        stuck, 0.4, [](int told) { return told == 2; }, 60);  // the third rank ends with its call
    EXPECT_THAT(texts, Each(AllOf(HasSubstr(cat("rank ", stuck, " (")), HasSubstr(" has been inside a"),
                                  HasSubstr("of launch 4 (its source, ranks_failures_test.cc:"),
                                  ::testing::ContainsRegex("\n  rank [012] waits for (rank [012]|the others): "))))
        << stuck;
  }
}

TEST(RanksThatHang, ALongCallWithinTheTimeoutIsNoHang) {
  const auto texts = errors_with_hanging_rank(
      1, 60, [](int told) { return told > 0; }, 2);
  EXPECT_THAT(texts, Each("no error"));
}

TEST(RanksThatHang, WorkOfTheProgramBetweenLaunchesIsNoHang) {
  const auto texts = errors_by_rank(
      3,
      [](World& world, int rank) {
        auto f = compile(world.mesh("d=3"), [](Tensor x) { return sum(x); });
        for (int i = 0; i < 3; ++i) {
          if (rank == i) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
          f(three()).wait();
          world.barrier();
        }
      },
      0.3);
  EXPECT_THAT(texts, Each("no error"));
}

// Rank 0 cannot write a checkpoint: the folder does not exist, or the disk becomes full (simulated by a limit on the
// file size).
TEST(RanksThatFail, ASaveThatRank0CannotWriteFailsOnAllAndTheWorldContinues) {
  const std::string good = ::testing::TempDir() + cat("karez_save_", getpid());
  signal(SIGXFSZ, SIG_IGN);
  std::barrier together(3);
  on_ranks(3, [&](const Ranks& here) {
    World world({.ranks = here});
    Parameter weight("weight", {DType::f64, {3, 500}}, constant_init(1));
    optim::SGD sgd({weight}, {.lr = 1});
    auto grow = compile(world.mesh("d=3"),
                        [&](Tensor x) {
                          sgd.step({broadcast_to(-x, {3, 500})});
                          return sum(weight);
                        },
                        {.rules = {{"weight", P("d", nullptr)}}});
    grow(HostArray::of<double>({}, {1})).wait();
    const auto refused = [&](const std::string& path, const char* why) {
      const std::string text = error_of([&] { world.save(path); });
      EXPECT_THAT(text, HasSubstr(cat("cannot write ", path, ": ", why))) << here.rank;
      EXPECT_EQ(text.starts_with("rank 0: "), here.rank != 0) << text;
    };
    refused("/no/such/folder", "No such file or directory");
    rlimit old{};
    if (here.rank == 0) {
      getrlimit(RLIMIT_FSIZE, &old);
      const rlimit small{1000, old.rlim_max};
      setrlimit(RLIMIT_FSIZE, &small);
    }
    together.arrive_and_wait();
    refused(good, "File too large");
    together.arrive_and_wait();
    if (here.rank == 0) setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_EQ(grow(HostArray::of<double>({}, {1})).item(), 3 * 500 * 3.0);
    for (int i = 0; i < 3; ++i) world.save(good);
    EXPECT_TRUE(std::filesystem::exists(good));
  });
  std::filesystem::remove(good);
}

}  // namespace
}  // namespace karez
