// Tests of data that one of several ranks cannot read: the call fails on all ranks and has no effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RanksThatFail, ASourceThatThrowsOnOneRankFailsTheLaunchOnAllRanks) {
  for (int failing_rank : {0, 1, 2}) {
    std::vector<int> last_complete(3, 0);
    const auto texts = errors_by_rank(3, [&](World& world, int rank) {
      auto numbers = std::make_shared<PositionSource>(rank == failing_rank ? 5 : -1);
      Parameter w("w", {DType::f64, {4}}, constant_init(1));
      auto f = compile(world.mesh("d=3"), [&](Tensor x) {
        return std::pair{sum(with_layout(x, {"d"}) * w), with_layout(x, {"d"}) * 2.0};
      });
      for (int i = 0;; ++i) {
        Future outputs = f(Feed{numbers, i});
        EXPECT_EQ(outputs.item(), 4.0 * i) << "the result must contain the summands of all ranks";
        last_complete[static_cast<std::size_t>(rank)] = i;
      }
    });
    EXPECT_THAT(texts, Each(HasSubstr("batch 5 is damaged"))) << failing_rank;
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(last_complete[static_cast<std::size_t>(rank)], 4) << "no rank may have a result of the failed launch";
      if (rank == failing_rank) EXPECT_THAT(texts[static_cast<std::size_t>(rank)], Not(HasSubstr("rank ")));
      else EXPECT_THAT(texts[static_cast<std::size_t>(rank)], HasSubstr(cat("rank ", failing_rank, ": ")));
    }
  }
}

TEST(RanksThatFail, InputsOfAFailedLaunchAreFreed) {
  EXPECT_THAT(errors_by_rank(2,
                             [](World& world, int rank) {
                               auto numbers = std::make_shared<PositionSource>(rank == 1 ? 2 : -1);
                               const std::weak_ptr<PositionSource> input = numbers;
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
                               EXPECT_TRUE(input.expired());
                               EXPECT_EQ(world.read("w").data<double>()[3], 1);
                             }),
              Each("no error"));
}

// One rank cannot read some batches. Training on the other batches gives the losses of a run without these batches.
TEST(RanksThatFail, ACallThatFailsBecauseOfItsDataHasNoEffect) {
  for (const int ranks : {2, 3}) {
    std::vector<std::vector<double>> losses(2);
    for (const bool fails : {false, true}) {
      on_ranks(ranks, [&](const Ranks& job) {
        World world({.devices = 2, .ranks = job});
        Parameter w("w", {DType::f64, {12}}, constant_init(1)), steps("steps", {DType::f64, {}}, constant_init(0));
        auto f = compile(world.mesh(cat("d=", 2 * ranks)), [&](Tensor x) {
          update(steps, steps + 1);  // does not depend on the data
          Tensor loss = sum(with_layout(x, {"d"}) * w);
          update(w, w - grad(loss, {w})[0] * 0.1);
          return loss + steps;
        });
        for (int i = 0; i < 12; ++i) {
          const auto valid_source = std::make_shared<PositionSource>(-1, 12);
          if (fails && i % 3 == 1) {
            const auto failing_source = std::make_shared<PositionSource>(job.rank == i % ranks ? i : -1, 12);
            // Two further calls run at the same time.
            std::vector<Future> calls = {f(Feed{failing_source, i}), f(Feed{valid_source, i}),
                                         f(Feed{valid_source, i})};
            const std::string error = error_of([&] { calls[0].wait(); });
            EXPECT_THAT(error, HasSubstr(cat("batch ", i, " is damaged")));
            EXPECT_EQ(error.find("rank ") == 0, job.rank != i % ranks) << error;
            for (const Future& call : {calls[1], calls[2]})
              EXPECT_THAT(error_of([&] { call.wait(); }), HasSubstr("did not run, because an earlier launch failed: "));
          }
          const double loss = f(Feed{valid_source, i}).item();
          if (job.rank == 0) losses[fails].push_back(loss);
        }
      });
    }
    EXPECT_EQ(losses[0], losses[1]) << ranks;
  }
}

// Ranks 0 and 1 train. Rank 2 has no device of their mesh and at first no plan, but gets the same errors.
TEST(RanksThatFail, DataFailuresAreReportedOnARankWithoutADevice) {
  std::vector<std::vector<std::string>> messages(3);
  std::vector<std::vector<double>> losses(3), expected(3);
  for (const bool fails : {false, true}) {
    on_ranks(3, [&](const Ranks& job) {
      World world({.ranks = job});
      Parameter w("w", {DType::f64, {12}}, constant_init(1));
      auto f = compile(world.mesh("d=2"), [&](Tensor x) {
        Tensor loss = sum(with_layout(x, {"d"}) * w);
        update(w, w - grad(loss, {w})[0] * 0.1);
        return loss;
      });
      auto g = compile(world.mesh("e=3"), [](Tensor x) { return x * 2.0; });
      auto record_error = [&](const std::function<void()>& call) {
        messages[static_cast<std::size_t>(job.rank)].push_back(error_of(call));
      };
      auto& rank_losses = (fails ? losses : expected)[static_cast<std::size_t>(job.rank)];
      for (int i = 0; i < 6; ++i) {
        const auto valid_source = std::make_shared<PositionSource>(-1, 12),
                   failing_source = std::make_shared<PositionSource>(job.rank == 1 ? i : -1, 12);
        if (fails) {
          record_error([&] { f(Feed{failing_source, i}).wait(); });
          record_error([&] { f(Feed{failing_source, i}).value().wait(); });
          record_error([&] { f(Feed{failing_source, i}).item(); });
          record_error([&] { g(f(Feed{failing_source, i}).value()).item(); });
          const Future first = f(Feed{failing_source, i}), second = f(Feed{valid_source, i});
          record_error([&] { second.wait(); });
          record_error([&] { first.wait(); });
          const Future failed_call = f(Feed{failing_source, i});
          record_error([&] { failed_call.wait(); });
          record_error([&] { g(failed_call.value()).wait(); });
          record_error([&] { failed_call.item(); });
          record_error([&] { failed_call.item(); });
        }
        rank_losses.push_back(f(Feed{valid_source, i}).item());
        rank_losses.push_back(g(f(Feed{valid_source, i}).value()).item());
      }
    });
  }
  EXPECT_THAT(losses, Each(expected[0]));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(messages[rank].size(), 60u);
    for (std::size_t i = 0; i < 60; ++i) {
      const bool was_reported =
          rank == 2 &&
          i % 10 > 6;  // this rank got the error before, and holds no part of the result that is used again
      EXPECT_THAT(messages[rank][i], HasSubstr(was_reported ? "did not run, because an earlier launch failed"
                                                            : cat("batch ", i / 10, " is damaged")))
          << rank << " " << i;
    }
  }
}

// The program does not wait for the failed call, so a later call throws. It must be the same call on all ranks.
TEST(RanksThatFail, DataFailuresAreReportedOnAllRanksAtTheSameCall) {
  std::vector<int> thrown(3, -1);
  on_ranks(3, [&](const Ranks& job) {
    World world({.ranks = job});
    auto on_three_ranks = compile(world.mesh("d=3"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
    auto f = compile(world.mesh("d=2"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
    const auto rows = std::make_shared<PositionSource>(job.rank == 0 ? 5 : -1, 12);
    for (int i = 0; i < 120; ++i) {
      try {
        (i % 3 == 0 ? on_three_ranks : f)(Feed{rows, i});
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("an earlier launch failed: "));
        EXPECT_EQ(thrown[static_cast<std::size_t>(job.rank)], -1);
        thrown[static_cast<std::size_t>(job.rank)] = i;
      }
    }
  });
  EXPECT_GT(thrown[0], 5);
  EXPECT_THAT(thrown, Each(thrown[0]));
}

// The batch is not sent to other ranks, so without the agreement rank 0 would not notice the failure.
TEST(RanksThatFail, ALaunchThatSendsNothingAlsoFailsOnAllRanks) {
  const auto texts = errors_by_rank(2, [&](World& world, int rank) {
    auto numbers = std::make_shared<PositionSource>(rank == 1 ? 0 : -1);
    auto f = compile(world.mesh("d=2"), [](Tensor x) { return with_layout(x * 2.0, {"d"}); });
    f(Feed{numbers, 0}).value().local();
  });
  EXPECT_THAT(texts, Each(HasSubstr("batch 0 is damaged")));
}

}  // namespace
}  // namespace karez
