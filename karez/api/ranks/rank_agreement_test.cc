// Tests of what ranks check before they run a program together: that all ranks join, that their library versions are
// equal, and that each pair of ranks agrees on its transfers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "karez/api/ranks/ranks.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"
#include "karez/kernels/cpu/library_versions.h"
#include "karez/runtime/session.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(RanksThatDiffer, ADifferentLibraryVersionOnOneRankIsAnErrorOnAllRanksThatGivesBothVersions) {
  const std::string versions = kernels::library_versions();
  EXPECT_THAT(versions,
              ::testing::MatchesRegex(
                  "Karez = [0-9.]+\ncompiler = .*\nC library = [0-9.]+\noneDNN = [0-9.]+ .*, instructions [0-9]+\n"
                  "Highway = [0-9.]+, [A-Z0-9_]+\nEigen = [0-9.]+\n"));
  for (const std::string line : {"Karez", "oneDNN", "Highway", "C library"}) {
    const std::size_t at = versions.find(line + " = ") + line.size() + 3;
    const std::string other_versions = std::string(versions).replace(at, 1, "99"),
                      rest = versions.substr(at + 1, versions.find('\n', at) - at - 1);
    const auto texts = errors_by_rank(3, [&](const Ranks& job) {
      WorldOptions options{.ranks = job};
      WorldRanks(options).agree(options, {}, job.rank == 2 ? other_versions : versions);
    });
    EXPECT_THAT(texts, Each(base::cat("rank 2's World differs from rank 0's: '", line, " = 99", rest, "' against '",
                                      line, " = ", versions[at], rest, "'")));
  }
}

TEST(RanksThatHang, ARankThatStopsAfterItJoinedIsReportedOnAllRanks) {
  std::promise<void> other_ranks_done[2];
  const auto texts = errors_by_rank(3, [&](const Ranks& job) {
    WorldOptions options{.ranks = job, .peer_timeout = 0.5};
    WorldRanks ranks(options);
    if (job.rank == 1) {
      for (auto& promise : other_ranks_done) promise.get_future().wait();
      return;
    }
    const std::string text = error_of([&] { ranks.agree(options, {}, "one = 1\n"); });
    other_ranks_done[job.rank / 2].set_value();
    base::fail(text);
  });
  for (int rank : {0, 2})
    EXPECT_THAT(texts[static_cast<std::size_t>(rank)],
                ::testing::MatchesRegex(
                    "rank 1 \\(.*\\) has stopped: it joined the rendezvous, but has sent nothing for 1.5 s"));
}

TEST(RanksThatHang, RanksWaitForASlowRankThatHasJoined) {
  const auto texts = errors_by_rank(3, [&](const Ranks& job) {
    WorldOptions options{.ranks = job, .peer_timeout = 20};
    WorldRanks ranks(options);
    if (job.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ranks.agree(options, {}, "one = 1\n");
  });
  EXPECT_THAT(texts, Each("no error"));
}

// Returns the error of each of three ranks in a step with several collectives of one communicator. `rank_2_change`
// alters the plan of rank 2, and `other_change` alters the plans of the other ranks.
std::vector<std::string> errors_with_plans(const std::function<void(plan::Plan&)>& rank_2_change,
                                           const std::function<void(plan::Plan&)>& other_change = {}) {
  return errors_by_rank(3, [&](const Ranks& job) {
    World world({.ranks = job, .session = [&](runtime::SessionOptions& options) {
                   options.on_plan = job.rank == 2 ? rank_2_change : other_change;
                 }});
    auto gather = [](Tensor x) { return with_layout(with_layout(x, {"d"}) * 2.0, {}); };
    auto f = compile(world.mesh("d=3"),
                     [&](Tensor x, Tensor y) {
                       return std::pair{gather(x), gather(y)};
                     },
                     {.name = "step"});
    f(HostArray::of<double>({3}, {1, 2, 3}), HostArray::of<double>({9}, {1, 2, 3, 4, 5, 6, 7, 8, 9})).wait();
  });
}

std::function<void(plan::Plan&)> set_chunk_size(std::int64_t bytes) {
  return [bytes](plan::Plan& plan) {
    for (plan::Communicator& group : plan.communicators) group.chunk = bytes;
  };
}

// Starts only these ranks of a job of `ranks` ranks, and returns the error of each.
std::vector<std::string> errors_of_started_ranks(const std::vector<int>& started_ranks, int ranks,
                                                 const std::function<void()>& first_rank_hook = {}) {
  const Ranks rendezvous = test_rendezvous(ranks);
  std::vector<std::string> out(started_ranks.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < started_ranks.size(); ++i)
    threads.emplace_back([&, i] {
      Ranks job = rendezvous;
      job.rank = started_ranks[i];
      out[i] = error_of(
          [&] { World({.while_waiting = i == 0 ? first_rank_hook : nullptr, .ranks = job, .start_timeout = 1.5}); });
    });
  threads.clear();
  return out;
}

TEST(RanksThatDoNotJoin, AllRanksReportTheMissingRanksAfterTheStartTimeout) {
  EXPECT_THAT(errors_of_started_ranks({0, 1}, 3),
              Each("rank 2 of 3 has not joined this world within start_timeout = 1.5 s"));
  EXPECT_THAT(errors_of_started_ranks({0, 2, 3}, 5),
              Each("ranks 1 and 4 of 5 have not joined this world within start_timeout = 1.5 s"));
  EXPECT_THAT(errors_of_started_ranks({0}, 16), Each("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 7 more of 16 have not joined "
                                                     "this world within start_timeout = 1.5 s"));
}

TEST(RanksThatDoNotJoin, AnInterruptEndsTheWaitForMissingRanks) {
  const auto begin = std::chrono::steady_clock::now();
  const auto texts = errors_of_started_ranks({0, 1}, 3, [&] {
    require(std::chrono::steady_clock::now() < begin + std::chrono::milliseconds(500), "interrupted");
  });
  EXPECT_EQ(texts[0], "interrupted");
  EXPECT_NE(texts[1], "no error") << "rank 0 has left, so rank 1 must get an error";
}

TEST(RanksThatDoNotJoin, OtherRanksWaitForRank0UntilTheStartTimeout) {
  EXPECT_THAT(errors_of_started_ranks({1, 2}, 3), Each(HasSubstr("cannot join the others: cannot reach")));
  const auto begin = std::chrono::steady_clock::now();
  const auto texts = errors_of_started_ranks({1, 2}, 3, [] { base::fail("interrupted"); });
  EXPECT_THAT(texts[0], HasSubstr("cannot join the others: interrupted"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1000)) << "rank 2 must keep waiting";
}

TEST(RanksThatDoNotJoin, OtherRanksWaitForRank0LongerThanThePeerTimeout) {
  ::testing::internal::CaptureStderr();
  const auto texts = errors_by_rank(2, [&](const Ranks& job) {
    WorldOptions options{.ranks = job, .peer_timeout = 0.3};
    if (job.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(900));
    WorldRanks ranks(options);
  });
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(texts, Each("no error"));
  EXPECT_THAT(warnings, HasSubstr("rank 0 of 2 has not started this world after 0.3 s; still waiting"));
}

TEST(RanksThatDiffer, EveryMessageOfALinkIsCompared) {
  EXPECT_THAT(errors_with_plans(set_chunk_size(8), set_chunk_size(8)), Each("no error"));
  EXPECT_THAT(errors_with_plans(set_chunk_size(8), set_chunk_size(16)),
              Each(HasSubstr("bytes 16 8; ")));  // the last message has the same size with both chunk sizes
}

TEST(RanksThatDiffer, DifferencesInTheLinksAreReportedBeforeTheFirstLaunch) {
  EXPECT_THAT(errors_with_plans([](plan::Plan&) {}), Each("no error"));
  const auto collectives = [](plan::Plan& plan, const std::function<void(plan::Collective&)>& change) {
    for (plan::Actor& actor : plan.actors)
      if (actor.collective) change(*actor.collective);
  };
  const std::vector<std::pair<std::string, std::function<void(plan::Plan&)>>> plan_changes = {
      {"bytes", set_chunk_size(8)},
      {"order",
       [&](plan::Plan& plan) {
         for (plan::Communicator& group : plan.communicators)
           std::reverse(group.sequence.begin(), group.sequence.end());
         collectives(plan, [&](plan::Collective& c) {
           for (int& turn : c.turns)
             turn = static_cast<int>(plan.communicators[c.communicator].sequence.size()) - 1 - turn;
         });
       }},
      {"peers",
       [&](plan::Plan& plan) {
         collectives(plan, [](plan::Collective& c) {
           using plan::CollectiveAlgorithm;
           c.algorithm =
               c.algorithm == CollectiveAlgorithm::ring ? CollectiveAlgorithm::direct : CollectiveAlgorithm::ring;
         });
       }},
      {"no collectives", [&](plan::Plan& plan) {
         for (plan::Actor& actor : plan.actors) actor.collective.reset();
       }}};
  for (const auto& [label, plan_change] : plan_changes) {
    const auto begin = std::chrono::steady_clock::now();
    const auto texts = errors_with_plans(plan_change);
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("the links of function 'step' (rank_agreement_test.cc:"),
                                  HasSubstr("two ranks disagree about the messages between them"),
                                  ::testing::ContainsRegex("\nrank [01]: .*\nrank 2: "))))
        << label;
    EXPECT_THAT(texts, Each(texts[0])) << label << ": the error must be the same on all ranks";
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 15)
        << label << ": the error must not wait for the peer timeout of 30 s";
  }
}

}  // namespace
}  // namespace karez
