// Tests of spans and their JSON with handwritten event logs.
#include "karez/report/trace_json.h"

#include <gtest/gtest.h>

#include "karez/base/text.h"

namespace karez::report {
namespace {

constexpr std::int32_t number = 3;

Plan plan_of(std::string_view kinds) {  // c: compute, x: collective
  Plan plan;
  for (char kind : kinds) {
    Actor actor;
    actor.name = cat(std::string(1, kind), plan.actors.size());
    if (kind == 'x') actor.body = BodyKind::collective, actor.collective.emplace();
    plan.actors.push_back(actor);
  }
  return plan;
}

Event event(EventKind kind, int actor, std::uint32_t act, std::int64_t time, std::int32_t plan = number) {
  Event out;
  out.kind = kind, out.actor = ActorId(actor), out.piece = act, out.time = time, out.plan = plan, out.ticket = act + 1;
  return out;
}

std::string spans(const Plan& plan, const std::vector<EventLog>& logs) {
  return join(spans_of(plan, number, logs), " ", [](const TraceSpan& s) {
    return cat("a", s.actor, ".", s.act, "@", s.worker, "/", s.lane, ":", s.begin, "-", s.end, s.failed ? "!" : "",
               s.worked ? "" : "=");
  });
}

using enum EventKind;

TEST(Trace, EveryActHasASpanFromItsBeginToItsEnd) {
  EXPECT_EQ(spans(plan_of("cc"),
                  {{{event(began, 0, 0, 10), event(ended, 0, 0, 15), event(began, 1, 0, 16), event(ended, 1, 0, 20),
                     event(began, 0, 1, 20), event(ended, 0, 1, 22), event(acted, 1, 1, 23)},
                    0}}),
            "a0.0@0/0:10-15 a1.0@0/0:16-20 a0.1@0/0:20-22 a1.1@0/0:23-23=");
}

TEST(Trace, OnlyActsOfThePlanHaveSpans) {
  EXPECT_EQ(spans(plan_of("c"), {{{event(launch_began, -1, 0, 1), event(acted, 0, 0, 2, number + 1),
                                   event(handed, 0, 0, 3), event(posted, 0, 0, 3), event(taken, 0, 0, 3),
                                   event(acted, 0, 5, 4), event(launch_ended, -1, 0, 5)},
                                  0}}),
            "a0.5@0/0:4-4=");
}

TEST(Trace, AnActWithoutBeginOrEndHasNoSpan) {
  EXPECT_EQ(spans(plan_of("cc"), {{{event(ended, 0, 0, 1), event(began, 1, 0, 2)}, 7}}), "");
}

TEST(Trace, AFailedActIsMarked) {
  EXPECT_EQ(spans(plan_of("cc"), {{{event(began, 0, 0, 1), event(failed, 0, 0, 2), event(ended, 0, 0, 3),
                                    event(began, 1, 0, 3), event(ended, 1, 0, 4)},
                                   0}}),
            "a0.0@0/0:1-3! a1.0@0/0:3-4");
}

TEST(Trace, OverlappingCollectivesHaveSeparateLanesOfTheirWorker) {
  EXPECT_EQ(spans(plan_of("xxc"),
                  {{},
                   {{event(began, 0, 0, 1), event(began, 1, 0, 2), event(began, 2, 0, 3), event(ended, 2, 0, 4),
                     event(ended, 0, 0, 5), event(began, 0, 1, 5), event(ended, 1, 0, 6), event(ended, 0, 1, 7)},
                    0}}),
            "a0.0@1/1:1-5 a1.0@1/2:2-6 a2.0@1/0:3-4 a0.1@1/1:5-7");
}

TEST(Trace, AnActDuringWhichAnotherActOfItsWorkerBeginsIsConcurrent) {
  EXPECT_EQ(spans(plan_of("ccc"),
                  {{{event(began, 0, 0, 1), event(began, 1, 0, 2), event(ended, 1, 0, 3), event(acted, 2, 0, 3),
                     event(ended, 0, 0, 4), event(began, 1, 1, 4), event(ended, 1, 1, 5)},
                    0}}),
            "a0.0@0/1:1-4 a1.0@0/0:2-3 a2.0@0/0:3-3= a1.1@0/0:4-5");
}

TEST(Trace, JsonContainsRankLaneTimesAndLocationOfEachSpan) {
  Plan plan = plan_of("cx");
  plan.name = "p", plan.rank = 2, plan.world = 4;
  plan.actors[ActorId(0)].where = "net.cc:7 \"q\"";
  plan.actors[ActorId(1)].collective->where = "relu at net.cc:8";
  const std::vector<TraceSpan> spans = {{ActorId(0), 5, 6, 0, 0, 1500, 4000, true, true},
                                        {ActorId(1), 0, 1, 0, 1, 2000, 2000, false, true}};
  EXPECT_EQ(
      print(trace_of(plan, spans)),
      R"({"displayTimeUnit":"ns","traceEvents":[)"
      R"({"args":{"name":"rank 2 of 4, plan 'p'"},"name":"process_name","ph":"M","pid":2,"tid":0},)"
      "\n"
      R"({"args":{"name":"worker 0"},"name":"thread_name","ph":"M","pid":2,"tid":0},)"
      "\n"
      R"({"args":{"name":"worker 0, concurrent 1"},"name":"thread_name","ph":"M","pid":2,"tid":1},)"
      "\n"
      R"({"args":{"act":5,"failed":true,"ticket":6,"where":"net.cc:7 \"q\"","worker":0},"cat":"compute","dur":2.500,"name":"c0","ph":"X","pid":2,"tid":0,"ts":1.500},)"
      "\n"
      R"({"args":{"act":0,"ticket":1,"where":"relu at net.cc:8","worker":0},"cat":"collective","dur":0.000,"name":"x1","ph":"X","pid":2,"tid":1,"ts":2.000}]})"
      "\n");
}

TEST(Trace, ConcurrentLanesComeAfterTheLastWorker) {
  const Plan plan = plan_of("xxx");
  const std::vector<TraceSpan> spans = {{ActorId(0), 0, 1, 0, 1, 0, 1, false, true},
                                        {ActorId(1), 0, 1, 0, 2, 0, 1, false, true},
                                        {ActorId(2), 0, 1, 1, 1, 0, 1, false, true}};
  const std::string json = print(trace_of(plan, spans));
  for (const char* lane : {R"({"name":"worker 0, concurrent 1"},"name":"thread_name","ph":"M","pid":0,"tid":2})",
                           R"({"name":"worker 0, concurrent 2"},"name":"thread_name","ph":"M","pid":0,"tid":3})",
                           R"({"name":"worker 1, concurrent 1"},"name":"thread_name","ph":"M","pid":0,"tid":4})"})
    EXPECT_NE(json.find(lane), std::string::npos) << json;
}

TEST(Trace, TimesKeepTheirNanosecondsAndArgumentsTheirTypes) {
  Trace trace;
  trace.facts = {{"origin", std::int64_t{1'700'000'000'000'000'001}}};
  trace.events.push_back({"n\xff",
                          "c",
                          1,
                          2,
                          1'700'000'000'123'456'789,
                          1'700'000'000'123'456'790,
                          {{"a", 0.5}, {"b", std::string("x")}}});
  trace.events.push_back({"m", "c", 1, 2, -1, 0});
  EXPECT_EQ(print(trace), R"({"displayTimeUnit":"ns","otherData":{"origin":1700000000000000001},"traceEvents":[)"
                          "{\"args\":{\"a\":0.5,\"b\":\"x\"},\"cat\":\"c\",\"dur\":0.001,\"name\":\"n\uFFFD\",\"ph\":"
                          "\"X\",\"pid\":1,\"tid\":2,\"ts\":1700000000123456.789},\n"
                          R"({"args":{},"cat":"c","dur":0.001,"name":"m","ph":"X","pid":1,"tid":2,"ts":-0.001}]})"
                          "\n");
}

}  // namespace
}  // namespace karez::report
