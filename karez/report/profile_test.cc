// Tests of profiles with handwritten events: how time is divided, the table, and the trace.
#include "karez/report/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/text.h"

namespace karez::report {
namespace {

using enum EventKind;
using testing::HasSubstr;
using testing::Not;

constexpr std::int32_t number = 3;

// a0 has two calls, a1 one, and a2 is a collective.
std::shared_ptr<const Plan> plan() {
  auto out = std::make_shared<Plan>();
  out->name = "step";
  const auto call = [](const char* kernel, const char* where) {
    Call result;
    result.kernel = kernel, result.where = where;
    Operand operand;
    operand.view = View(DType::f32, {1 << 18});
    result.in = result.out = {operand};
    return result;
  };
  Actor first;
  first.name = "compute.0";
  first.calls = {call("onednn.matmul", "matmul at net.cc:12 (fc)"),
                 call("hwy.pointwise", "relu at net.cc:13 (fc.grad)")};
  first.calls[1].attrs.set("expr", std::string("max(x0, 0)"));
  Actor second;
  second.name = "compute.1";
  second.calls = {call("onednn.matmul", "matmul at net.cc:14 (head)")};
  Actor third;
  third.name = "all_reduce fc";
  third.body = BodyKind::collective;
  third.collective.emplace();
  third.collective->where = "add at net.cc:15 (fc)";
  for (const Actor& actor : {first, second, third}) out->actors.push_back(actor);
  return out;
}

Event event(EventKind kind, int actor, std::uint32_t piece, std::int64_t time, std::uint32_t ticket = 7) {
  Event out;
  out.kind = kind, out.actor = ActorId(actor), out.piece = piece, out.time = time, out.plan = number;
  out.ticket = ticket;
  return out;
}

ProfileData data_of(std::vector<std::vector<Event>> workers, std::vector<RecordedLaunch> launches = {{7, number, 90}}) {
  ProfileData out;
  out.recording.plans[number] = plan();
  out.recording.launches = std::move(launches);
  for (auto& events : workers) out.recording.workers.push_back({std::move(events), 0});
  return out;
}

std::string rows_of(const ProfileTimes& times) {
  return join(times.rows, ", ", [](const ProfileRow& row) {
    return cat(row.op, " ", row.module, ": ", row.time, row.hidden > 0 ? cat("+", row.hidden) : "",
               row.waited > 0 ? cat(" waited ", row.waited) : "");
  });
}

void expect_whole(const ProfileTimes& times) {
  std::int64_t sum = times.other + times.waiting + times.overhead + times.stall + times.program;
  for (const ProfileRow& row : times.rows) sum += row.time;
  EXPECT_EQ(sum, times.total());
}

const std::vector<Event> one_launch = {
    event(launch_began, -1, 0, 100), event(began, 0, 0, 110), event(used_cpu, 0, 15, 130),    event(called, 0, 0, 130),
    event(called, 0, 1, 150),        event(ended, 0, 0, 151), event(launch_ended, -1, 0, 160)};

TEST(Profile, TimeOutsideOfCallsIsLaunchOverhead) {
  const ProfileTimes times = times_of(data_of({one_launch}));
  EXPECT_EQ(rows_of(times), "matmul fc: 20, relu fc (grad): 20");
  EXPECT_EQ(times.begin, 90);
  EXPECT_EQ(times.end, 160);
  EXPECT_EQ(times.overhead, 30);
  EXPECT_EQ(times.launches, 1);
  EXPECT_EQ(times.unfinished, 0);
  EXPECT_EQ(times.rows[0].cpu, 15);
  EXPECT_EQ(times.rows[0].cpu_of, 20);
  EXPECT_EQ(times.rows[1].cpu_of, 0);
  EXPECT_EQ(times.rows[0].bytes, 2 << 20);
  expect_whole(times);
}

TEST(Profile, AWorkerWaitsUntilItTakesMail) {
  const ProfileTimes times =
      times_of(data_of({one_launch, {event(taken, 1, 0, 120), event(began, 1, 0, 125), event(ended, 1, 0, 140)}}));
  EXPECT_EQ(times.workers, 2);
  EXPECT_EQ(rows_of(times), "matmul fc: 20, relu fc (grad): 20, matmul head: 15 waited 20");
  EXPECT_EQ(times.waiting, 20 + 20) << "before the message, and until worker 0 ends the launch";
  EXPECT_EQ(times.overhead, 30 + 10 + 5);
  expect_whole(times);
}

TEST(Profile, TheTimeOfACollectiveDuringOtherCallsIsHidden) {
  const ProfileTimes times =
      times_of(data_of({{event(launch_began, -1, 0, 100), event(began, 2, 0, 110), event(began, 1, 0, 120),
                         event(ended, 1, 0, 130), event(ended, 2, 0, 150), event(launch_ended, -1, 0, 150)}}));
  EXPECT_EQ(rows_of(times), "all_reduce of add fc: 30+10, matmul head: 10");
  EXPECT_EQ(times.rows[0].kernel, "all_reduce");
  EXPECT_EQ(times.overhead, 20);
  expect_whole(times);
  EXPECT_THAT(profile_table(times, ProfileBy::op, 10), HasSubstr("hidden ms"));
}

std::vector<Event> two_launches() {
  std::vector<Event> events = one_launch;
  for (Event e : one_launch) {
    e.time += 200, e.ticket = 9;
    events.push_back(e);
  }
  return events;
}

TEST(Profile, TimeWithoutALaunchIsAStallOrTheProgram) {
  ProfileData data = data_of({two_launches()}, {{7, number, 90}, {9, number, 295}});
  data.stages.push_back({"map(decode)", 0, 11, 200, 280, true});
  data.stages.push_back({"map(decode)", 1, 12, 150, 280, false, 1, 8});
  const ProfileTimes times = times_of(data);
  EXPECT_EQ(times.launches, 2);
  EXPECT_EQ(times.stall, 80);
  EXPECT_EQ(times.program, 40 + 15);
  EXPECT_EQ(times.rows[0].calls, 2);
  expect_whole(times);
}

TEST(Profile, OtherLaunchesDoNotCount) {
  // A launch that was made before the profile ends when the first one has been made.
  std::vector<Event> events = two_launches();
  const ProfileTimes second = times_of(data_of({events}, {{9, number, 120}}));
  EXPECT_EQ(second.launches, 1);
  EXPECT_EQ(second.begin, 160);
  EXPECT_EQ(second.other, 0);
  expect_whole(second);
  // A launch that is not recorded runs between two others.
  for (Event e : one_launch) {
    e.time += 400, e.ticket = 11;
    events.push_back(e);
  }
  const ProfileTimes outer = times_of(data_of({events}, {{7, number, 90}, {11, number, 450}}));
  EXPECT_EQ(outer.launches, 2);
  EXPECT_EQ(outer.other, 40);
  expect_whole(outer);
  EXPECT_THAT(profile_table(outer, ProfileBy::op, 10), HasSubstr("calls of other launches"));
}

TEST(Profile, ALaunchThatHasNotEndedIsLeftOut) {
  std::vector<Event> events = one_launch;
  events.push_back(event(launch_began, -1, 0, 200, 9));
  events.push_back(event(began, 0, 0, 210, 9));
  ProfileData data = data_of({events}, {{7, number, 90}, {9, number, 190}});
  data.recording.workers[0].overwritten = 5;
  const ProfileTimes times = times_of(data);
  EXPECT_EQ(times.launches, 1);
  EXPECT_EQ(times.unfinished, 1);
  EXPECT_EQ(times.end, 160);
  const std::string table = profile_table(times, ProfileBy::op, 10);
  EXPECT_THAT(table, HasSubstr("1 launch had not ended or lost events, and is left out"));
  EXPECT_THAT(table, HasSubstr("5 events were lost"));
}

TEST(Profile, AProfileWithoutLaunchesSaysSo) {
  EXPECT_EQ(profile_table(times_of(data_of({}, {})), ProfileBy::op, 10), "no launch was recorded\n");
  EXPECT_EQ(profile_table(times_of(ProfileData()), ProfileBy::module, 10), "no launch was recorded\n");
  EXPECT_TRUE(trace_of(ProfileData()).events.empty());
}

TEST(Profile, TheTableListsOpsWithTheirLinesAndSums) {
  EXPECT_EQ(profile_table(times_of(data_of({one_launch})), ProfileBy::op, 10),
            R"(1 launch, 0.000 ms a step, 1 worker
  ms     of the step  calls  us a call  CPU   MiB   waited ms  op      line       module     kernel
  0.000       28.6 %      1        0.0  75 %  2.00      0.000  matmul  net.cc:12  fc         onednn.matmul
  0.000       28.6 %      1        0.0        2.00      0.000  relu    net.cc:13  fc (grad)  hwy.pointwise max(x0, 0)
  0.000       57.1 %  sum of the ops
  0.000        0.0 %  waiting: a launch ran, and a worker had no act that could run
  0.000       42.9 %  launch overhead: to begin and end launches and acts
  0.000        0.0 %  data stall: no launch, and the program waited for a data set
  0.000        0.0 %  program: no launch otherwise
)");
}

TEST(Profile, RowsBeyondTheLimitAreAddedUp) {
  const std::string table = profile_table(
      times_of(data_of({one_launch, {event(taken, 1, 0, 120), event(began, 1, 0, 125), event(ended, 1, 0, 140)}})),
      ProfileBy::op, 1);
  EXPECT_THAT(table, HasSubstr("(2 other rows)"));
  EXPECT_THAT(table, Not(HasSubstr("relu")));
}

TEST(Profile, AModuleIncludesItsGradients) {
  const std::string table = profile_table(times_of(data_of({one_launch})), ProfileBy::module, 10);
  EXPECT_THAT(table, HasSubstr("57.1 %      2        0.0  75 %  4.00      0.000  fc\n"));
  EXPECT_THAT(table, HasSubstr("sum of the modules"));
}

TEST(Profile, OpsOfTheSameKindAreOneRow) {
  ProfileTimes times = times_of(data_of({one_launch}));
  times.rows[1].op = times.rows[0].op;
  EXPECT_THAT(profile_table(times, ProfileBy::kind, 10),
              HasSubstr("waited ms  op\n  0.000       57.1 %      2        0.0  75 %  4.00      0.000  matmul\n"));
}

TEST(Profile, ALongNameOfAMergedOpIsShortened) {
  ProfileTimes times = times_of(data_of({one_launch}));
  times.rows[0].op = "reduce_max + sub + exp + reduce_sum + div + select + mul";
  EXPECT_THAT(profile_table(times, ProfileBy::op, 10),
              HasSubstr("  reduce_max + sub + exp + reduce_sum +...  net.cc:12"));
}

TEST(Profile, TheTraceHasLaunchesCallsStagesAndStalls) {
  ProfileData data = data_of({two_launches()}, {{7, number, 90}, {9, number, 295}});
  data.rank = 1, data.ranks = 2, data.origin = 1000;
  data.stages.push_back({"map(decode)", 0, 11, 200, 280, true});
  data.stages.push_back({"map(decode)", 1, 12, 150, 280, false, 1, 8});
  data.stages.push_back({"map(decode)", 0, 13, 150, 280, false, 1, 8});
  const Trace trace = trace_of(data);
  std::string lanes, events;
  for (const auto& [lane, name] : trace.lanes) lanes += cat(lane.first, "/", lane.second, " ", name, "; ");
  EXPECT_EQ(lanes, "1/0 launches; 1/1 thread 11 waits for data; 1/2 worker 0; 1/3 data thread 1; 1/4 thread 13; ");
  for (const TraceEvent& e : trace.events) events += cat(e.lane, " ", e.name, " ", e.begin, "-", e.end, "; ");
  EXPECT_EQ(events,
            "0 step 90-160; 0 step 295-360; 2 matmul 110-130; 2 relu 130-150; 2 matmul 310-330; 2 relu 330-350; "
            "1 waits for data 200-280; 3 map(decode) 150-280; 4 map(decode) 150-280; ");
  EXPECT_EQ(std::get<double>(trace.events[1].args.at("waited_for_data_us")), 0.08);
  EXPECT_EQ(std::get<double>(trace.events[0].args.at("waited_for_data_us")), 0);
  EXPECT_EQ(std::get<std::int64_t>(trace.facts.at("origin_ns")), 1000);
  EXPECT_EQ(std::get<std::string>(trace.events[3].args.at("expression")), "max(x0, 0)");
}

TEST(Profile, OverlappingLaunchesHaveLanesOfTheirOwn) {
  const Trace trace = trace_of(data_of({two_launches()}, {{7, number, 90}, {9, number, 95}}));
  EXPECT_EQ(trace.lanes.at({0, 1}), "launches, concurrent 1");
  EXPECT_EQ(trace.events[1].lane, 1);
  // 90 to 160 in lane 0, 95 to 360 in lane 1, 165 to 560 in lane 0, and the last one can use neither of them.
  std::vector<Event> events = two_launches();
  for (Event e : two_launches()) {
    e.time += 400, e.ticket += 4;
    events.push_back(e);
  }
  std::string lanes;
  for (const TraceEvent& e :
       trace_of(data_of({events}, {{7, number, 90}, {9, number, 95}, {11, number, 165}, {13, number, 300}})).events)
    if (e.category == "launch") lanes += cat(e.lane, " ");
  EXPECT_EQ(lanes, "0 1 0 2 ");
}

TEST(Profile, TheCallThatFailedIsMarked) {
  const Trace trace =
      trace_of(data_of({{event(launch_began, -1, 0, 100), event(began, 0, 0, 110), event(called, 0, 0, 130),
                         event(failed, 0, 0, 140), event(ended, 0, 0, 141), event(launch_ended, -1, 0, 160)}}));
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[2].begin, 130);
  EXPECT_EQ(trace.events[2].args.count("failed"), 1u);
}

}  // namespace
}  // namespace karez::report
