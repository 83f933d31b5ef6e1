// Tests of the parsers of Slurm's lists.
#include "karez/comm/rendezvous/slurm_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"

namespace karez::comm {
namespace {
using ::testing::HasSubstr;

TEST(SlurmList, AHostListIsParsedIntoItsFirstHostAndItsCount) {
  struct {
    const char* text;
    const char* first;
    std::int64_t count;
  } const cases[] = {
      {"login", "login", 1},        {"gpu-node-1,gpu-node-2", "gpu-node-1", 2},
      {"gpu[07-12,3]", "gpu07", 7}, {"a[009]", "a009", 1},
      {"z,a[1-2]", "z", 3},         {"rack[1-2]node[03-06].site", "rack1node03.site", 8},
      {"n[1,5]x,m", "n1x", 3},
  };
  for (const auto& [text, first, count] : cases) {
    SlurmHosts hosts = parse_slurm_hosts(text);
    EXPECT_EQ(hosts.first, first) << text;
    EXPECT_EQ(hosts.count, count) << text;
  }
  for (const char* invalid : {"", ",", "a,", "a,,b", "a[", "a]", "a[]", "a[1-]", "a[-2]", "a[3-1]", "a[x]", "a[1,]",
                              "a b", "a[[1]]", "a[1-2000000000000]"})
    EXPECT_THAT(error_of([&] { parse_slurm_hosts(invalid); }), HasSubstr("is not a Slurm host list")) << invalid;
}

TEST(SlurmList, ATaskListContainsTheTasksOfEachNode) {
  EXPECT_EQ(slurm_tasks_of("4", 0), 4);
  for (int node = 0; node < 4; ++node) EXPECT_EQ(slurm_tasks_of("2(x3),1", node), node < 3 ? 2 : 1);
  EXPECT_THAT(error_of([] { slurm_tasks_of("2(x3),1", 4); }), HasSubstr("has 4 nodes; this is node 4"));
  for (const char* invalid : {"", "x", "2(x3", "2(3)", "2(x)", "(x2)", "2,,1", "2(x3)1"})
    EXPECT_THAT(error_of([&] { slurm_tasks_of(invalid, 9); }), HasSubstr("is not a Slurm list of task counts"))
        << invalid;
}

}  // namespace
}  // namespace karez::comm
