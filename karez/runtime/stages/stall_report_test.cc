// Tests of the choice of the stage that limits a data set, and of the advice.
#include "karez/runtime/stages/stall_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/data/creation_line.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/test_random_datasets.h"
#include "karez/device/cpu_budget.h"

namespace karez::runtime {
namespace {

using data::Dataset;
using data::Element;
using data::range;

Element same(const Element& e) { return e; }
bool any(const Element&) { return true; }

// {inactive, acting, ready, no_input, no_slot}
int limit_of(const Dataset& dataset, const std::vector<ActivityTimes>& times) {
  return limiting_stage(data::stage_tree(dataset.node()).graph, times).stage.index;
}

TEST(LimitingStage, IsTheFirstOneFromTheReaderThatActsForLongerThanItWaitsForInput) {
  const Dataset chain = range(9).filter(any).prefetch(2).filter(any).prefetch(2).filter(any);  // actors 0, 1, 2
  const ActivityTimes waits = {0, 1, 0, 9, 0}, acts = {0, 9, 0, 1, 0}, is_full = {0, 1, 0, 0, 9};
  EXPECT_EQ(limit_of(chain, {is_full, is_full, acts}), 2);
  EXPECT_EQ(limit_of(chain, {is_full, acts, waits}), 1);
  EXPECT_EQ(limit_of(chain, {acts, waits, waits}), 0);
  EXPECT_EQ(limit_of(chain, {waits, waits, waits}), 0) << "a source has no input";
  EXPECT_EQ(limit_of(chain, {acts, acts, waits}), 1);
  const ActivityTimes waits_for_core = {0, 1, 9, 5, 0};
  EXPECT_EQ(limit_of(chain, {acts, waits_for_core, waits}), 1) << "it had input for most of the time";
  EXPECT_EQ(limit_of(chain, {{}, {}, {}}), 2) << "nothing is known";
}

TEST(LimitingStage, OfSeveralInputsItIsTheOneThatNeverWaitsForASlot) {
  const Dataset zip = data::zip({range(9).filter(any).prefetch(2), range(9).filter(any).prefetch(2)});  // 0 and 1; 2
  const ActivityTimes waits = {0, 1, 0, 9, 0}, acts = {0, 9, 0, 1, 0}, is_full = {0, 1, 0, 0, 9};
  EXPECT_EQ(limit_of(zip, {acts, is_full, waits}), 0);
  EXPECT_EQ(limit_of(zip, {is_full, acts, waits}), 1);
}

TEST(LimitingStage, TheShareIsThatOfTheTimeInWhichItWasActive) {
  const Dataset one = range(9).filter(any);
  LimitingStage limit = limiting_stage(data::stage_tree(one.node()).graph, {{100, 3, 0, 0, 1}});
  EXPECT_DOUBLE_EQ(limit.acting, 0.75);
  EXPECT_FALSE(limit.waits_for_core);
  limit = limiting_stage(data::stage_tree(one.node()).graph, {{100, 2, 6, 0, 0}});
  EXPECT_DOUBLE_EQ(limit.acting, 0.25);
  EXPECT_TRUE(limit.waits_for_core);
  EXPECT_EQ(limiting_stage(data::stage_tree(one.node()).graph, {{100, 0, 0, 0, 0}}).acting, 0);
}

std::string text_of(const Dataset& dataset, int stage, std::optional<double> cpu, bool waits_for_core = false,
                    bool own_cores = true) {
  return limit_text(data::stage_tree(dataset.node()), {plan::StageId(stage), 0.98, waits_for_core}, cpu, own_cores);
}

TEST(LimitText, SaysWhatAUserMayChange) {
  const Dataset files = range(9).filter(any).prefetch(1);
  const Dataset map = files.map(same, {.name = "decode"});
  const std::string name = "limited by map(decode), which acted 98 % of the time";
  const bool has_cores = device::cpu_budget().cpus.size() > 1;
  EXPECT_EQ(text_of(map, 1, 0.97), name + ", CPU" + (has_cores ? "; give it parallel=2" : ""));
  EXPECT_EQ(text_of(map, 1, 0.5), name + ", CPU" + (has_cores ? "; give it parallel=2" : ""));
  EXPECT_EQ(text_of(map, 1, 0.49), name + ", IO; give it parallel=4");
  EXPECT_EQ(text_of(map, 1, std::nullopt), name + "; give it parallel=4");
  EXPECT_EQ(text_of(map, 1, 0.97, true), name + " and otherwise waited for a core");
  EXPECT_EQ(text_of(map.batch(4), 1, 0.1),
            "limited by map(decode), batch(4, last=keep), which acted 98 % of the time, IO; give map(decode) "
            "parallel=4");
  EXPECT_EQ(text_of(map.filter(any), 1, 0.1),
            "limited by map(decode), filter, which acted 98 % of the time, IO; give the slowest of map(decode), filter "
            "parallel=4");
  EXPECT_EQ(text_of(files.batch(4), 1, 0.1), "limited by batch(4, last=keep), which acted 98 % of the time, IO");
}

TEST(LimitText, NamesTheLinesThatCreatedTheStages) {
  static std::string line;
  data::set_line_provider([] { return line; });
  line = "a.py:1";
  const Dataset rows = range(9).filter(any).prefetch(1).map(same, {.name = "decode"});
  line = "a.py:2";
  const Dataset filtered = rows.filter(any), batches = filtered.filter(any).batch(4);
  line = "";
  const Dataset unknown = batches.batch(2);
  data::set_line_provider(nullptr);
  const std::string end = ", which acted 98 % of the time, IO";
  EXPECT_EQ(text_of(rows, 1, 0.1), "limited by map(decode) at a.py:1" + end + "; give it parallel=4");
  EXPECT_EQ(text_of(filtered, 1, 0.1), "limited by map(decode) at a.py:1, filter at a.py:2" + end +
                                           "; give the slowest of map(decode), filter parallel=4");
  EXPECT_THAT(text_of(unknown, 1, 0.1),
              testing::HasSubstr("filter, filter, batch(4, last=keep) at a.py:2, batch(2, last=keep), which"));
}

TEST(LimitText, AStageWithLanesNeedsMoreOfThemUnlessAllCoresCompute) {
  const int cores = static_cast<int>(device::cpu_budget().cpus.size());
  const Dataset map = range(9).filter(any).map(same, {.parallel = std::max(2, cores), .name = "f"});
  EXPECT_THAT(text_of(map, 1, 0.9), testing::EndsWith("of the time, CPU"));
  EXPECT_THAT(text_of(map, 1, 0.1), testing::EndsWith("of the time, IO; give it a larger parallel"));
}

TEST(LimitText, AStageThatNeedsCoresOfItsOwnIsToldHowToGetOne) {
  const int cores = static_cast<int>(device::cpu_budget().cpus.size());
  const Dataset map = range(9).filter(any).map(same, {.parallel = std::max(2, cores), .name = "f"});
  const std::string advice = cores > 1 ? "; try data_cores=1, which leaves it a core that no kernel uses" : "";
  EXPECT_THAT(text_of(map, 1, 0.9, false, false), testing::EndsWith("of the time, CPU" + advice));
  EXPECT_THAT(text_of(map, 1, 0.9, true, false), testing::EndsWith("waited for a core" + advice));
  EXPECT_THAT(text_of(map, 1, 0.1, false, false), testing::EndsWith("give it a larger parallel"));
}

TEST(StallText, ContainsTheShare) {
  EXPECT_EQ(stall_text(0.3, 12.1), "the devices waited for data for 0.300 s of 12.100 s (2.5 %)");
  EXPECT_EQ(stall_text(0, 0), "the devices waited for data for 0.000 s of 0.000 s (0.0 %)");
}

}  // namespace
}  // namespace karez::runtime
