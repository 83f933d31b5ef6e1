// Tests of the HTML document: user text is escaped, and drawings match the simulation.
#include <gmock/gmock.h>

#include "karez/report/plan_report.h"

namespace karez::report {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const two_acts = R"(
plan "a<b>" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
stream 1: "comm" device 0 worker 1
block b0: register device 0 bytes 256
block b1: variable device 0 bytes 768 name "w" layout "f32[192]"
register r0: session -> a0
register r1: a0 -> a1 slots 2 bytes 64 in b0 + 128 stride 64 type "f32[16]"
register r2: a1 -> session
actor a0: compute "x\"&'" stream 0 in r0 out r1
  call "plain.constant" {value=1.0} out r1 f32[16] team 1
actor a1: compute "second" stream 1 in r1 out r2 at "net.cc:1"
)";

PlanReport make_test_report() {
  return make_report(parse_plan(two_acts),
                     CostTable::parse("link alpha=0 beta=0 matmul_flops=1 conv_flops=1 memory_bytes=1e18 call=4"));
}

TEST(Html, UserTextIsEscaped) {
  const std::string text = html_of(make_test_report());
  EXPECT_THAT(text, HasSubstr("<title>Plan a&lt;b&gt;</title>"));
  EXPECT_THAT(text, HasSubstr("x&quot;&amp;&#39;"));
  EXPECT_THAT(text, Not(HasSubstr("a<b>")));
}

TEST(Html, ASlotLastsFromItsWriterToItsLastConsumer) {
  PlanReport report = make_test_report();
  EXPECT_DOUBLE_EQ(report.seconds, 4);
  const MemoryTimeline& memory = report.memory[DeviceId(0)];
  EXPECT_EQ(memory.bytes, 1024);
  ASSERT_EQ(memory.spans.size(), 2u);
  EXPECT_EQ(memory.spans[0].kind, "variable");
  EXPECT_EQ(memory.spans[0].offset, 0);
  const MemorySpan& slot = memory.spans[1];
  EXPECT_EQ(std::tuple(slot.kind, slot.begin, slot.offset, slot.bytes), std::tuple("register", 0.0, 768 + 128, 64));
  EXPECT_NEAR(slot.end, 4, 1e-9);
  EXPECT_THAT(html_of(report), HasSubstr("x=\"0.000%\" width=\"100.000%\" y=\"6.250%\" height=\"6.250%\""));
}

TEST(Html, TheReportStatesTheOriginOfItsCostsAndWarnsAboutDefaults) {
  EXPECT_THAT(html_of(make_test_report()), HasSubstr("<b>4000000.0 us</b>a launch, predicted</div>"));
  EXPECT_THAT(html_of(make_test_report()),
              HasSubstr("<p>Times are predicted, not measured. Costs: from a table without an origin</p>"));
  const std::string text = html_of(make_report(parse_plan(two_acts)));
  EXPECT_THAT(text, HasSubstr(" us</b>a launch, predicted with default costs (`karez doctor --kernels --save` measures "
                              "this machine)</div>"));
  EXPECT_THAT(text, HasSubstr("Costs: defaults, not measured on any processor; the plan has no cost table"));
  Plan plan_with_costs = parse_plan(two_acts);
  plan_with_costs.costs = "origin \"<mine>\"\nlink alpha=0 beta=0\nmemory_bytes=1e18\ncall=7\n";
  EXPECT_DOUBLE_EQ(make_report(plan_with_costs).seconds, 7);
  EXPECT_THAT(html_of(make_report(plan_with_costs)), HasSubstr("Costs: &lt;mine&gt;</p>"));
}

TEST(Html, EachStreamWithActsHasALane) {
  PlanReport report = make_test_report();
  ASSERT_EQ(report.lanes.size(), 2u);
  EXPECT_EQ(report.lanes[0].name, "compute");
  ASSERT_EQ(report.lanes[0].spans.size(), 1u);
  EXPECT_DOUBLE_EQ(report.lanes[0].spans[0].end, 4);
  EXPECT_DOUBLE_EQ(report.lanes[1].spans.at(0).begin, 4);
}

TEST(Html, TheFiguresAreTimeDevicesMemoryAndTraffic) {
  PlanReport report = make_test_report();
  report.transfer_bytes = 2048;
  EXPECT_THAT(html_of(report), HasSubstr("<div><b>1</b>devices</div>"
                                         "<div><b>1.00 KiB</b>peak memory of the fullest device</div>"
                                         "<div><b>2.00 KiB</b>between devices per launch</div>"));
}

TEST(Html, NumbersInTablesAreRightAligned) {
  PlanReport report = make_test_report();
  report.actors.rows = {{"acts", "name"}, {"12.5", "x < y"}};
  EXPECT_THAT(html_of(report), HasSubstr("<tr><th>acts</th><th>name</th></tr>\n</thead><tbody>\n"
                                         "<tr><td class=\"number\">12.5</td><td>x &lt; y</td></tr>\n"));
}

TEST(Html, OverlappingActsAreDrawnInDifferentRows) {
  PlanReport report = make_test_report();  // 4 seconds
  report.lanes.resize(1);
  report.lanes[0].spans = {{0, 2, "compute", "a"}, {1, 3, "compute", "b"}, {2, 4, "compute", "c"}};
  const std::string text = html_of(report);
  EXPECT_THAT(text, HasSubstr("aria-label=\"cpu 0.0 compute\" height=\"36\">"));
  EXPECT_THAT(text, HasSubstr("x=\"0.000%\" width=\"50.000%\" y=\"1\" height=\"16\""));
  EXPECT_THAT(text, HasSubstr("x=\"25.000%\" width=\"50.000%\" y=\"19\" height=\"16\""));
  EXPECT_THAT(text, HasSubstr("x=\"50.000%\" width=\"50.000%\" y=\"1\" height=\"16\""));
}

TEST(Html, NeighbouringNarrowSpansAreDrawnAsOne) {
  PlanReport report = make_test_report();
  report.seconds = 1500;  // a span of less than a second is narrow
  report.lanes.resize(1);
  report.lanes[0].spans = {{0, 0.75, "compute", "a"}, {0.75, 1.5, "compute", "b"}, {1.5, 2.25, "compute", "c"}};
  EXPECT_THAT(html_of(report), HasSubstr("width=\"0.150%\""));
  EXPECT_THAT(html_of(report), HasSubstr("3 acts, the last: c"));
}

TEST(Html, TheAxisHasFourToTenMarksAndShowsItsUnitOnce) {
  PlanReport report = make_test_report();  // 4 seconds
  EXPECT_THAT(
      html_of(report),
      HasSubstr("<svg class=\"axis\" height=\"16\">"
                "<text x=\"0.000%\" y=\"12\">0 us</text><text x=\"25.000%\" y=\"12\">1000000</text>"
                "<text x=\"50.000%\" y=\"12\">2000000</text><text x=\"75.000%\" y=\"12\">3000000</text></svg>"));
  report.seconds = 9e-6;
  EXPECT_THAT(html_of(report), HasSubstr("\"12\">0 us</text><text x=\"22.222%\" y=\"12\">2</text>"));
  report.seconds = 2.5e-6;
  EXPECT_THAT(html_of(report), HasSubstr("\"12\">0.0 us</text><text x=\"20.000%\" y=\"12\">0.5</text>"));
}

TEST(Html, ADeviceWithoutMemoryHasNoDrawing) {
  PlanReport report = make_test_report();
  EXPECT_THAT(html_of(report), HasSubstr("aria-label=\"memory of "));
  report.memory[DeviceId(0)].bytes = 0;
  EXPECT_THAT(html_of(report), Not(HasSubstr("aria-label=\"memory of ")));
  report.memory[DeviceId(0)].bytes = 1;
  EXPECT_THAT(html_of(report), HasSubstr("aria-label=\"memory of "));
}

TEST(Html, LongTablesAndDrawingsAreTruncatedWithANote) {
  PlanReport report = make_test_report();
  for (int i = 0; i < 3000; ++i) report.actors.rows.push_back({"a", "n"});
  report.memory[DeviceId(0)].omitted = 7;
  for (Lane& lane : report.lanes)
    for (int i = 0; i < 100; ++i) lane.spans.push_back({4 + i * 1e-9, 4 + (i + 1) * 1e-9, "compute", "thin"});
  const std::string text = html_of(report);
  for (const char* expected : {"<p>... and 1002 more.</p>", "7 more, each smaller", " acts, the last: thin"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected;
}

}  // namespace
}  // namespace karez::report
