// Tests of ranks that wait for a stage of a data set while other ranks wait for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "karez/api/ranks/test_ranks.h"
#include "karez/karez.h"

namespace karez {
namespace {

using base::error_of;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// A function of a data set that waits until it is released.
class Gate {
 public:
  data::Element operator()(const data::Element& element) {
    std::unique_lock lock(mutex_);
    open_.wait(lock, [&] { return is_open_; });
    return element;
  }
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    open_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable open_;
  bool is_open_ = false;
};

data::Dataset gated(const std::shared_ptr<Gate>& gate) {
  return data::range(5)
      .filter([](const data::Element&) { return true; })
      .map([gate](const data::Element& e) { return (*gate)(e); }, {.name = "decode"})
      .batch(2);
}

WorldOptions options(const Ranks& job, double peer_timeout, double call_timeout) {
  WorldOptions out;
  out.ranks = job, out.peer_timeout = peer_timeout, out.call_timeout = call_timeout;
  return out;
}

// A call that all ranks execute.
void meet(World& world) {
  auto total = compile(world.mesh("d=2"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
  EXPECT_EQ(total(HostArray::of<float>({4}, {1, 2, 3, 4})).item(), 10);
}

TEST(RanksThatWaitForData, ASlowStageIsNotAHang) {
  for (int waiting : {0, 1}) {
    testing::internal::CaptureStderr();
    std::vector<std::string> errors(2);
    on_ranks(2, [&](const Ranks& job) {
      World world(options(job, 0.4, 300));
      errors[static_cast<std::size_t>(job.rank)] = error_of([&] {
        meet(world);  // also compiles, which takes time
        const auto gate = std::make_shared<Gate>();
        DataIterator iterator = world.iterate(gated(gate));
        std::thread opener([&] {
          // Five times peer_timeout. The other rank waits to agree on the element.
          if (job.rank == waiting) std::this_thread::sleep_for(std::chrono::milliseconds(2000));
          gate->open();
        });
        const std::string error = error_of([&] { iterator.next(); });
        opener.join();
        EXPECT_EQ(error, "no error");
        meet(world);
      });
    });
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_THAT(errors, Each("no error"));
    EXPECT_THAT(log, ContainsRegex(cat("rank ", waiting,
                                       ".* waits for stage map\\(decode\\) of a data set, which has "
                                       "been running for 0\\.[4-9] s on data thread 1 .*, and others "
                                       "wait; after 300.0 s")));
    EXPECT_THAT(log, Not(HasSubstr("hang of")));
  }
}

TEST(RanksThatWaitForData, AStageThatRunsForCallTimeoutIsReportedOnAllRanks) {
  for (int waiting : {0, 1}) {
    std::vector<std::string> errors(2);
    std::vector<ErrorKind> kinds(2, ErrorKind::user);
    on_ranks(2, [&](const Ranks& job) {
      World world(options(job, 0.4, 1));
      const auto rank = static_cast<std::size_t>(job.rank);
      try {
        meet(world);
        const auto gate = std::make_shared<Gate>();
        if (job.rank != waiting) gate->open();
        DataIterator iterator = world.iterate(gated(gate));
        try {
          iterator.next();
        } catch (...) {
          gate->open();
          throw;
        }
      } catch (const Error& error) { errors[rank] = error.what(), kinds[rank] = error.kind; }
    });
    EXPECT_THAT(errors, Each(ContainsRegex(cat("rank ", waiting,
                                               ".* waits for stage map\\(decode\\) of a data set, "
                                               "which has been running for 1\\..* s on data thread 1 "
                                               "\\(thread id [0-9]+\\)\n  rank ",
                                               1 - waiting, " waits for "))));
    EXPECT_THAT(kinds, Each(ErrorKind::hang));
  }
}

TEST(RanksThatWaitForData, TheFailureOfAnotherRankEndsTheWait) {
  const auto gate = std::make_shared<Gate>();
  std::vector<std::string> errors(2);
  on_ranks(2, [&](const Ranks& job) {
    auto world = std::make_unique<World>(options(job, 30, 300));
    if (job.rank == 0) return world->end(false);
    DataIterator iterator = world->iterate(gated(gate), {.compare = false});
    errors[1] = error_of([&] { iterator.next(); });
    gate->open();
    EXPECT_TRUE(iterator.next()) << "the iterator is still usable, and the element exists";
    world->end(false);
  });
  EXPECT_THAT(errors[1], HasSubstr("rank 0"));
}

}  // namespace
}  // namespace karez
