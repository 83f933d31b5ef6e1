// Tests of the tables of a report, with plans of few actors.
#include <gmock/gmock.h>

#include <tuple>

#include "karez/base/text.h"
#include "karez/report/plan_report.h"

namespace karez::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Section section_of(const PlanReport& report, std::string_view title) {
  for (const Section& section : report.sections)
    if (section.title.starts_with(title)) return section;
  throw std::runtime_error(cat("no section '", title, "'"));
}

PlanReport make_test_report(const std::string& plan) {
  return make_report(parse_plan(plan),
                     CostTable::parse("link alpha=1 beta=0 matmul_flops=1 conv_flops=1 memory_bytes=1e18 call=4"));
}

// Makes a plan with one all_reduce of the given number of devices.
std::string all_reduce(int devices) {
  std::string out = "plan \"p\" world 1 rank 0 hash 0\n", members;
  for (int d = 0; d < devices; ++d)
    out += cat("device ", d, ": 0 ", d, " \"cpu\"\n"), members += cat(d > 0 ? ", " : "", "0 ", d, " \"cpu\"");
  for (int d = 0; d < devices; ++d) out += cat("stream ", d, ": \"comm\" device ", d, " worker ", d, "\n");
  for (int d = 0; d < devices; ++d)
    out += cat("register r", 2 * d, ": session -> a", d, "\nregister r", 2 * d + 1, ": a", d, " -> session\n");
  for (int d = 0; d < devices; ++d)
    out += cat(
        "actor a", d, ": collective \"all_reduce %1\" stream ", d, " in r", 2 * d, " out r", 2 * d + 1,
        "\n  collective \"all_reduce\" \"sum\" by \"direct\" communicator 0 turn 0 in none f32[1] out none f32[1]\n");
  return out + "communicator 0: chunk 64 members " + members + " sequence \"all_reduce %1\"\n";
}

TEST(Sections, ACollectiveInTheCriticalCycleIsShownWithItsNumberOfMembers) {
  auto actors = [](int devices) {
    const Section section = section_of(make_test_report(all_reduce(devices)), "Critical cycle");
    std::string out;
    for (const auto& row : section.rows) out += row.at(1) + "\n";
    return out;
  };
  EXPECT_THAT(actors(1), HasSubstr("a0 all_reduce %1"));
  EXPECT_THAT(actors(2), HasSubstr("a0 all_reduce %1 and its 1 other member\n"));
  EXPECT_THAT(actors(3), HasSubstr("a0 all_reduce %1 and its 2 other members\n"));
}

// A launch cannot read a variable before the previous launch has updated it. Overlapping launches wait only for the
// variable; launches that run one at a time also wait for the last act.
TEST(Sections, TheCriticalCycleOfOverlappingLaunchesNamesItsVariable) {
  const PlanReport report = make_test_report(R"plan(
plan "p" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
stream 1: "compute" device 0 worker 1
stream 2: "compute" device 0 worker 2
stream 3: "compute" device 0 worker 3
block b0: variable device 0 bytes 64 name "fc.w" layout "f32[16]"
block b1: register device 0 bytes 256
register r0: session -> a0
register r1: a0 -> a1, a2 bytes 64 in b0 stride 64
register r2: a1 -> a2 bytes 64 in b1 stride 64 type "f32[16]"
register r3: a2 -> a3 slots 2 bytes 64 in b1 + 128 stride 64 type "f32[16]"
register r4: a3 -> session
actor a0: state "state 0" stream 0 in r0 out r1
actor a1: compute "read" stream 1 in r1 out r2
  call "plain.constant" {value=1.0} out r2 f32[16] team 1
actor a2: compute "update" stream 2 in r1, r2 out r3
  call "plain.constant" {value=1.0} out r3 f32[16] team 1
actor a3: compute "last" stream 3 in r3 out r4
  call "plain.constant" {value=1.0} out b1 + 64 f32[16] team 1
)plan");
  EXPECT_EQ(section_of(report, "Critical cycle").title,
            "Critical cycle if launches run one at a time: 12000000.0 us a launch, predicted");
  const Section overlap = section_of(report, "Launches that overlap");
  EXPECT_EQ(overlap.title, "Launches that overlap as far as slots allow: 8000000.0 us a launch, predicted");
  EXPECT_THAT(overlap.rows,
              testing::UnorderedElementsAre(testing::_, ElementsAre("0.0", "a0 state 0", "grants variable fc.w"),
                                            ElementsAre("4000000.0", "a1 read", "fills r2 f32[16]"),
                                            ElementsAre("4000000.0", "a2 update", "returns variable fc.w")));
}

// Two collectives of two devices and an act that takes no time.
TEST(Sections, TransfersAndSourceLinesAreSortedByTimeAndActsWithoutTimeAreOmitted) {
  const PlanReport report = make_report(parse_plan(R"plan(
plan "p" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
device 1: 0 1 "cpu"
stream 0: "comm" device 0 worker 0
stream 1: "comm" device 1 worker 1
register r0: session -> a0
register r1: session -> a1
register r2: a0 -> a2
register r3: a1 -> a3
register r4: a2 -> a4
register r5: a3 -> session
register r6: a4 -> session
actor a0: collective "all_reduce %1" stream 0 in r0 out r2
  collective "all_reduce" "sum" by "direct" communicator 0 turn 0 in none f32[8] out none f32[8] at "net.cc:1"
actor a1: collective "all_reduce %1" stream 1 in r1 out r3
  collective "all_reduce" "sum" by "direct" communicator 0 turn 0 in none f32[8] out none f32[8] at "net.cc:1"
actor a2: collective "all_reduce %2" stream 0 in r2 out r4
  collective "all_reduce" "sum" by "direct" communicator 0 turn 1 in none f32[64] out none f32[64] at "net.cc:2"
actor a3: collective "all_reduce %2" stream 1 in r3 out r5
  collective "all_reduce" "sum" by "direct" communicator 0 turn 1 in none f32[64] out none f32[64] at "net.cc:2"
actor a4: state "state" stream 0 in r4 out r6 at "net.cc:3"
communicator 0: chunk 64 members 0 0 "cpu", 0 1 "cpu" sequence "all_reduce %1", "all_reduce %2"
transfer "all_reduce" "d" bytes 64 "net.cc:1 %1"
transfer "all_reduce" "d" bytes 512 "net.cc:2 %2"
)plan"),
                                        CostTable::parse("link alpha=0 beta=1\nmatmul_flops=1\nconv_flops=1\n"
                                                         "memory_bytes=1e18\ncall=4"));
  const Section traffic = section_of(report, "Traffic");
  EXPECT_THAT(traffic.title, testing::MatchesRegex("Traffic between devices: 2 transfers, 576 B .576 bytes. a launch, "
                                                   "[0-9.]+ us in sequence, predicted"));
  ASSERT_EQ(traffic.rows.size(), 3u);
  EXPECT_EQ(traffic.rows[1].back(), "net.cc:2 %2");
  EXPECT_EQ(traffic.rows[2].back(), "net.cc:1 %1");
  const Section lines = section_of(report, "Source lines");
  ASSERT_EQ(lines.rows.size(), 3u) << "net.cc:3 takes no time";
  EXPECT_EQ(lines.rows[1].at(4), "net.cc:2");
  EXPECT_EQ(lines.rows[2].at(4), "net.cc:1");
}

TEST(Sections, BytesThatRegistersOfAModuleShareAreCountedOnce) {
  for (const auto& [first, second, shared] : {std::tuple("", " + 40", "120 B"), std::tuple(" + 28", "", "128 B")}) {
    const Section section = section_of(make_test_report(cat(R"plan(
plan "p" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
block b0: register device 0 bytes 128
register r0: session -> a0
register r1: a0 -> a1 bytes 100 in b0)plan",
                                                            first, R"plan( stride 128 type "f32[25]"
register r2: a1 -> session bytes 80 in b0)plan",
                                                            second, R"plan( stride 128 type "f32[20]"
actor a0: compute "x" stream 0 in r0 out r1 at "relu at net.cc:3 (act)"
actor a1: compute "y" stream 0 in r1 out r2 at "relu at net.cc:3 (act)"
)plan")),
                                       "Memory by module");
    EXPECT_EQ(section.title, "Memory by module, on its device: 128 B in blocks (register 128 B)");
    EXPECT_THAT(section.rows, ElementsAre(testing::_, ElementsAre(shared, "-", "-", shared, "act")));
  }
}

TEST(Sections, MemoryIsListedByKindOfBlockAndByModule) {
  const Section section = section_of(make_test_report(R"plan(
plan "p" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
block b0: register device 0 bytes 256
block b1: variable device 0 bytes 768 name "fc.w" layout "f32[192]"
register r0: session -> a0
register r1: a0 -> session slots 2 bytes 64 in b0 + 128 stride 64 type "f32[16]"
actor a0: compute "x" stream 0 in r0 out r1
  call "plain.constant" {value=1.0} out r1 f32[16] team 1 at "relu at net.cc:3 (act)"
)plan"),
                                     "Memory by module");
  EXPECT_EQ(section.title, "Memory by module, on its device: 1.00 KiB in blocks (register 256 B, variable 768 B)");
  EXPECT_THAT(section.rows, ElementsAre(ElementsAre("total", "variables", "state", "registers", "module"),
                                        ElementsAre("768 B", "768 B", "-", "-", "fc"),
                                        ElementsAre("128 B", "-", "-", "128 B", "act")));
}

}  // namespace
}  // namespace karez::report
