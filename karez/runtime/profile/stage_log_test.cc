// Tests of the acts and stalls that data threads add to logs.
#include "karez/runtime/profile/stage_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <thread>

#include "karez/data/stages/test_random_datasets.h"
#include "karez/runtime/stages/data_threads.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez::runtime {
namespace {

Element zeros(const Element&) { return data::element(HostArray(TensorType{DType::f32, {8}})); }

const std::string work = "range(0, 40, 1), map(work, parallel=2) (by index)";

std::int64_t elements_of(const StageLog& log, const std::string& stage) {
  std::int64_t out = 0;
  for (const StageSpan& span : log.spans())
    if (!span.stall && *span.stage == stage) out += span.elements;
  return out;
}

TEST(StageLog, HasTheActsOfEveryStageWhileItIsAdded) {
  for (int threads : {0, 2}) {
    DataThreads pool(threads);
    DatasetReader reader(data::range(40).map(zeros, {.parallel = 2, .name = "work"}), pool);
    reader.start();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(reader.next());
    const auto log = std::make_shared<StageLog>();
    pool.add_log(log);
    const std::int64_t begin = ticks();
    for (int i = 10; i < 40; ++i) ASSERT_TRUE(reader.next());
    pool.remove_log(log);
    const std::int64_t end = ticks();
    const std::size_t count = log->spans().size();
    EXPECT_GE(elements_of(*log, work), 20);  // some were made ahead
    EXPECT_LE(elements_of(*log, work), 30);
    std::map<int, std::int64_t> last_end;  // by thread of the system
    for (const StageSpan& span : log->spans()) {
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(span.end, end);
      EXPECT_GT(span.thread_id, 0);
      EXPECT_EQ(span.thread == 0, threads == 0);
      EXPECT_GE(span.begin, last_end[span.thread_id]) << "the acts of a thread overlap";
      last_end[span.thread_id] = span.end;
      if (*span.stage == work) { EXPECT_EQ(span.bytes, span.elements * 32); }
    }
    EXPECT_LT(log->spans().front().begin, end);
    EXPECT_GT(log->spans().back().end, begin);
    while (reader.next()) continue;
    EXPECT_EQ(log->spans().size(), count);
  }
}

TEST(StageLog, HasTheTimesWithoutALaunchInWhichTheProgramWaits) {
  using namespace std::chrono_literals;
  DataThreads pool(2);
  DatasetReader reader(data::range(30).map([](const Element& e) {
    std::this_thread::sleep_for(3ms);
    return e;
  }),
                       pool);
  reader.start();
  const auto log = std::make_shared<StageLog>();
  pool.add_log(log);
  std::int64_t waited = 0;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t begin = ticks();
    ASSERT_TRUE(reader.next());
    if (i > 0) waited += ticks() - begin;
    pool.idle_clock()->launched(ticks());
    pool.idle_clock()->ended(ticks());
  }
  pool.remove_log(log);
  std::int64_t stalls = 0;
  for (const StageSpan& span : log->spans()) {
    if (!span.stall) continue;
    EXPECT_EQ(span.thread_id, gettid());
    stalls += span.end - span.begin;
  }
  EXPECT_GT(stalls, waited / 2);
  EXPECT_LE(stalls, waited);
}

TEST(StageLog, SpansBeyondTheLimitAreCounted) {
  StageLog log(2);
  for (int i = 0; i < 5; ++i) log.add({});
  EXPECT_EQ(log.spans().size(), 2u);
  EXPECT_EQ(log.lost(), 3u);
}

}  // namespace
}  // namespace karez::runtime
