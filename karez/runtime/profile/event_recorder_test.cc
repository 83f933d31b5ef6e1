// Tests of recorders: which events of which launches they keep, and what they count as lost.
#include "karez/runtime/profile/event_recorder.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

// GCC's implementation of "#pragma omp parallel", because tests are compiled without OpenMP.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);

namespace karez::runtime {
namespace {

const KernelTable& kernels() {
  static const KernelTable table(test_kernels());
  return table;
}

std::int64_t count_of(const Recording& recording, EventKind kind) {
  std::int64_t count = 0;
  for (const EventLog& log : recording.workers)
    count += std::count_if(log.events.begin(), log.events.end(), [&](const Event& e) { return e.kind == kind; });
  return count;
}

std::vector<std::uint64_t> tickets_of(const Recording& recording) {
  std::vector<std::uint64_t> out;
  for (const RecordedLaunch& launch : recording.launches) out.push_back(launch.ticket);
  return out;
}

std::uint64_t lost(const Recording& recording) {
  std::uint64_t out = 0;
  for (const EventLog& log : recording.workers) out += log.overwritten;
  return out;
}

// Reads a ring without a gap, although it is overwritten many times between other reads.
TEST(EventRing, AReaderGoesOnWhereItStoppedAndOverwrittenEntriesAreCounted) {
  EventRing ring(16);
  for (int i = 0; i < 1000; ++i) ring.act(EventKind::acted, i % 3, 7, ActorId(i), i);
  EventPosition position = ring.end();
  EXPECT_EQ(position.entries, 1000u);
  EXPECT_TRUE(ring.read(position).events.empty());
  int next = 1000, expected = 1000;
  std::uint64_t total = 0;
  for (int count : {0, 1, 5, 16, 3, 200, 0, 40, 15}) {
    for (int i = 0; i < count; ++i, ++next) ring.act(EventKind::acted, next % 3, 7, ActorId(next), next);
    const EventLog log = ring.read(position);
    EXPECT_EQ(log.events.size() + log.overwritten, static_cast<std::size_t>(count));
    if (count <= 16) { EXPECT_EQ(log.overwritten, 0u); }
    if (count == 200) { EXPECT_GE(log.overwritten, 100u); }
    expected += static_cast<int>(log.overwritten);
    for (const Event& event : log.events) {
      EXPECT_EQ(event.actor, ActorId(expected));
      EXPECT_EQ(event.plan, expected % 3);
      ++expected;
    }
    total += log.events.size() + log.overwritten;
  }
  EXPECT_EQ(total, 280u);
  EXPECT_EQ(position.entries, 1280u);
}

TEST(EventRing, AReaderMayLeaveOutKindsWhoseEntriesStillCount) {
  EventRing ring(64);
  EventPosition position = ring.end();
  for (int i = 0; i < 30; ++i) ring.act(i % 3 == 0 ? EventKind::began : EventKind::acted, 1, 7, ActorId(i), i);
  const EventLog log = ring.read(position, without({EventKind::acted}));
  ASSERT_EQ(log.events.size(), 10u);
  EXPECT_EQ(log.entries, 30u);
  EXPECT_EQ(log.overwritten, 0u);
  EXPECT_EQ(position.entries, 30u);
  for (std::size_t i = 0; i < log.events.size(); ++i) EXPECT_EQ(log.events[i].actor, ActorId(3 * static_cast<int>(i)));
}

TEST(EventRing, AReaderMissesNothingWhileAnotherThreadWrites) {
  EventRing ring(64);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop.load(); ++i) {
      if (i % 5 == 0) ring.update_time();
      ring.act(EventKind::acted, i % 7, static_cast<std::uint64_t>(i % 7), ActorId(i), i);
    }
  });
  EventPosition position;
  std::int64_t expected = 0, read = 0;
  bool ok = true;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < until && ok) {
    const EventLog log = ring.read(position);
    expected += static_cast<std::int64_t>(log.overwritten);
    for (const Event& event : log.events) {
      ok = ok && event.actor.index == expected && event.plan == expected % 7 &&
           event.ticket == static_cast<std::uint32_t>(event.plan);
      ++expected, ++read;
    }
  }
  stop = true;
  writer.join();
  EXPECT_TRUE(ok) << "entry " << expected;
  EXPECT_GT(read, 0);
}

TEST(EventRecorder, RecordsTheCallsOfTheLaunchesAfterItsBegin) {
  Session session({.workers = 2}, kernels());
  const int plan = session.load(counting_plan());
  session.launch(plan).wait();
  const auto recorder = session.record_events({});
  for (int i = 0; i < 3; ++i) session.launch(plan).wait();
  session.end_recording(recorder);
  session.launch(plan).wait();
  const Recording recording = session.recording(*recorder);
  EXPECT_EQ(tickets_of(recording), (std::vector<std::uint64_t>{2, 3, 4}));
  ASSERT_EQ(recording.plans.size(), 1u);
  EXPECT_EQ(*recording.plans.at(plan), counting_plan());
  EXPECT_EQ(lost(recording), 0u);
  EXPECT_EQ(count_of(recording, EventKind::launch_began), 3);
  EXPECT_EQ(count_of(recording, EventKind::launch_ended), 3);
  std::int64_t calls = 0;
  for (const Actor& actor : recording.plans.at(plan)->actors) calls += static_cast<std::int64_t>(actor.calls.size());
  ASSERT_GE(calls, 1);
  EXPECT_EQ(count_of(recording, EventKind::called), 3 * calls);
  for (const EventLog& log : recording.workers)
    for (std::size_t i = 1; i < log.events.size(); ++i) EXPECT_GE(log.events[i].time, log.events[i - 1].time);
  for (const RecordedLaunch& launch : recording.launches) EXPECT_GT(launch.made, 0);
  EXPECT_TRUE(recorder->ended());
  // Without a profile, workers do not record calls.
  for (const EventLog& log : session.events())
    for (const Event& event : log.events) EXPECT_FALSE(event.kind == EventKind::called && event.ticket > 4);
}

std::int64_t own_cpu_time() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

constexpr std::int64_t kernel_time = 5'000'000;

// A kernel whose threads compute for `kernel_time` ns each, and count themselves.
KernelRow computing_row(std::atomic<int>& threads) {
  return test_row("compute", [&threads](const CallSpec& call) -> PreparedKernel {
    return [&threads, team = call.team](const KernelArgs&) {
      GOMP_parallel(
          [](void* threads) {
            ++*static_cast<std::atomic<int>*>(threads);
            const std::int64_t end = own_cpu_time() + kernel_time;
            while (own_cpu_time() < end) {}
          },
          &threads, static_cast<unsigned>(team), 0);
    };
  });
}

TEST(EventRecorder, TheCpuTimeOfACallIncludesAllThreadsOfItsTeam) {
  for (const int team : {1, 2, 3}) {
    PlanBuilder s;
    const ActorId a = s.actor("a", 0);
    s.start(a);
    s.done(a);
    s.call(a, "test.compute", {}, {});
    s.plan.actors[a].calls[0].team = team;
    std::atomic<int> threads{0};
    const KernelTable table({computing_row(threads)});
    Session session({.workers = 1}, table);
    const int plan = session.load(s.plan);
    const auto recorder = session.record_events({});
    constexpr int launches = 6;
    for (int i = 0; i < launches; ++i) session.launch(plan).wait();
    session.end_recording(recorder);
    int measured = 0;
    for (const EventLog& log : session.recording(*recorder).workers)
      for (const Event& event : log.events) {
        if (event.kind != EventKind::used_cpu) continue;
        EXPECT_GE(event.piece, threads / launches * kernel_time) << "team " << team;
        ++measured;
      }
    EXPECT_GE(measured, 1);
  }
}

TEST(EventRecorder, EndsByItselfAfterTheRequestedLaunches) {
  Session session({.workers = 1}, kernels());
  const int plan = session.load(counting_plan());
  std::atomic<int> ends{0};
  const auto recorder = session.record_events({.launches = 2, .skip = 1, .on_end = [&] { ++ends; }});
  for (int i = 0; i < 3; ++i) session.launch(plan).wait();
  EXPECT_TRUE(eventually([&] { return ends == 1; }));
  EXPECT_TRUE(recorder->ended());
  for (int i = 0; i < 5; ++i) session.launch(plan).wait();
  const std::vector<EventLog> logs = session.events();
  for (const Event& event : logs[0].events)
    EXPECT_FALSE(event.kind == EventKind::called && event.ticket > 4) << "ticket " << event.ticket;
  session.end_recording(recorder);
  session.end_recording(recorder);
  EXPECT_EQ(tickets_of(session.recording(*recorder)), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(ends, 1);
}

TEST(EventRecorder, TwoRecordersOfASessionAreIndependent) {
  Session session({.workers = 1}, kernels());
  const int plan = session.load(counting_plan());
  const auto first = session.record_events({});
  session.launch(plan).wait();
  const auto second = session.record_events({});
  session.launch(plan).wait();
  session.end_recording(first);
  session.launch(plan).wait();
  session.end_recording(second);
  EXPECT_EQ(tickets_of(session.recording(*first)), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(tickets_of(session.recording(*second)), (std::vector<std::uint64_t>{2, 3}));
  for (const auto& recorder : {first, second})
    EXPECT_EQ(count_of(session.recording(*recorder), EventKind::launch_ended), 2);
  EXPECT_GT(count_of(session.recording(*second), EventKind::called), 0);
}

TEST(EventRecorder, PlansThatAreLoadedDuringTheRecordingAreIncluded) {
  Session session({.workers = 1}, kernels());
  const auto recorder = session.record_events({});
  const int plan = session.load(counting_plan("late"));
  session.launch(plan).wait();
  session.unload(plan);
  session.end_recording(recorder);
  const Recording recording = session.recording(*recorder);
  ASSERT_EQ(recording.plans.count(plan), 1u);
  EXPECT_EQ(recording.plans.at(plan)->name, "late");
  EXPECT_GT(count_of(recording, EventKind::called), 0);
}

TEST(EventRecorder, ARecordingSurvivesAReloadAndTheEndOfTheSession) {
  Session session({.workers = 1}, kernels());
  const auto recorder = session.record_events({});
  int plan = session.load(counting_plan());
  session.launch(plan).wait();
  session.reload();
  plan = session.load(counting_plan());
  session.launch(plan).wait();
  session.end(Session::ShutdownMode::graceful);
  session.end_recording(recorder);
  const Recording recording = session.recording(*recorder);
  EXPECT_EQ(recording.launches.size(), 2u);
  EXPECT_EQ(count_of(recording, EventKind::launch_ended), 2);
  EXPECT_EQ(recording.plans.size(), 2u);
  EXPECT_NE(error_of([&] { session.record_events({}); }), "");
}

TEST(EventRecorder, EventsOfManyLaunchesAreReadBeforeTheyAreOverwritten) {
  Session session({.workers = 1}, kernels());
  const int plan = session.load(counting_plan());
  const auto recorder = session.record_events({});
  constexpr int launches = 3000;  // of more events than the ring has
  for (int i = 0; i < launches; ++i) session.launch(plan).wait();
  session.end_recording(recorder);
  const Recording recording = session.recording(*recorder);
  const auto kept = static_cast<std::uint64_t>(count_of(recording, EventKind::launch_ended));
  EXPECT_EQ(recording.launches.size(), static_cast<std::size_t>(launches));
  EXPECT_LE(kept, static_cast<std::uint64_t>(launches));
  EXPECT_TRUE(kept == launches || lost(recording) > 0) << kept << " launches and no lost event";
}

TEST(EventRecorder, EventsBeyondTheLimitAreLost) {
  Session session({.workers = 1}, kernels());
  const int plan = session.load(counting_plan());
  const auto recorder = session.record_events({.max_events = 10});
  for (int i = 0; i < 20; ++i) session.launch(plan).wait();
  session.end_recording(recorder);
  const Recording recording = session.recording(*recorder);
  EXPECT_EQ(recording.workers[0].events.size(), 10u);
  EXPECT_GE(lost(recording), 20u * 3u - 10u);
}

TEST(EventRecorder, InvalidOptionsAreErrors) {
  Session session({.workers = 1}, kernels());
  EXPECT_EQ(error_of([&] { session.record_events({.launches = -1}); }),
            "profile: the number of launches must be at least 0, got -1");
  EXPECT_EQ(error_of([&] { session.record_events({.skip = -2}); }),
            "profile: the number of skipped launches must be at least 0, got -2");
}

}  // namespace
}  // namespace karez::runtime
