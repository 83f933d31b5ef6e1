// Tests of the counts of skipped records.
#include "karez/data/stages/skip_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "karez/base/test_error.h"

namespace karez::data {
namespace {
using testing::ElementsAre;

// Reports of the form "name 3 first".
struct Reports {
  SkipReport of(const std::string& name) {
    return [this, name](const SkippedRecords& skipped) {
      texts.push_back(cat(name, " ", skipped.count, " ", skipped.first_error));
    };
  }
  std::vector<std::string> texts;
};

TEST(SkipCounts, AreReportedOnceForEachFunction) {
  Reports reports;
  const auto counts = std::make_shared<SkipCounts>();
  {
    const SkipCountsScope scope(counts);
    count_skipped("a", {2, "one"}, reports.of("a"));
    count_skipped("b", {1, "two"}, reports.of("b"));
    count_skipped("a", {3, "three"}, reports.of("another a"));
    EXPECT_THAT(reports.texts, ElementsAre());
  }
  counts->report();
  EXPECT_THAT(reports.texts, ElementsAre("a 5 one", "b 1 two"));
  counts->report();
  EXPECT_EQ(reports.texts.size(), 2u) << "a report starts again at 0";
}

TEST(SkipCounts, AScopeIsOfOneThreadAndEnds) {
  Reports reports;
  const auto outer = std::make_shared<SkipCounts>(), inner = std::make_shared<SkipCounts>();
  {
    const SkipCountsScope scope(outer);
    std::thread([&] { count_skipped("thread", {1, "x"}, reports.of("thread")); }).join();
    EXPECT_THAT(reports.texts, ElementsAre("thread 1 x")) << "outside of streams, records are reported at once";
    {
      const SkipCountsScope nested(inner);
      count_skipped("a", {1, "inner"}, reports.of("a"));
    }
    EXPECT_EQ(current_skip_counts(), outer);
    count_skipped("a", {1, "outer"}, reports.of("a"));
    outer->add(*inner);
  }
  EXPECT_EQ(current_skip_counts(), nullptr);
  outer->report();
  EXPECT_EQ(reports.texts.back(), "a 2 outer");
}

TEST(SkipCounts, AnErrorOfAReportLeavesNoCount) {
  SkipCounts counts;
  counts.add("a", {1, "x"}, [](const SkippedRecords&) { fail(ErrorKind::user, "report"); });
  EXPECT_EQ(error_of([&] { counts.report(); }), "report");
  counts.report();
}

TEST(SkipCounts, SeveralThreadsMayAdd) {
  Reports reports;
  const auto counts = std::make_shared<SkipCounts>();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const SkipCountsScope scope(counts);
      for (int n = 0; n < 100; ++n) count_skipped("a", {1, "x"}, reports.of("a"));
    });
  for (std::thread& thread : threads) thread.join();
  counts->report();
  EXPECT_THAT(reports.texts, ElementsAre("a 400 x"));
}

}  // namespace
}  // namespace karez::data
