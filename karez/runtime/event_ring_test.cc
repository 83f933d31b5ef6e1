// Tests of the event ring, and of the event logs of sessions and of the simulator. A replay with token counts must find
// no violation in these logs.
#include "karez/runtime/event_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "karez/data/array_source.h"
#include "karez/plan/acts.h"
#include "karez/runtime/session.h"
#include "karez/runtime/simulator.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/worker/test_protocol_check.h"

namespace karez::runtime {
namespace {

TEST(EventRing, EachKindOfEventHasItsOwnName) {
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(EventKind::used_cpu); ++kind)
    names.insert(name_of(static_cast<EventKind>(kind)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(EventKind::used_cpu) + 1);
  EXPECT_EQ(names.count("?"), 0u);
}

TEST(EventRing, TheNewestEntriesStayInOrderAndOverwrittenEntriesAreCounted) {
  EventRing ring(5);
  EXPECT_EQ(ring.capacity(), 8) << "the capacity must be rounded up to a power of two";
  EXPECT_TRUE(ring.read().events.empty());
  for (int i = 0; i < 8; ++i) ring.act(EventKind::acted, 3, 7, ActorId(i), 100 + i);
  EventLog log = ring.read();
  ASSERT_EQ(log.events.size(), 8u);
  EXPECT_EQ(log.overwritten, 0u);
  for (int i = 8; i < 21; ++i) ring.act(EventKind::acted, 3, 7, ActorId(i), 100 + i);
  log = ring.read();
  ASSERT_EQ(log.events.size(), 8u);
  EXPECT_EQ(log.overwritten, 13u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(log.events[static_cast<std::size_t>(i)].actor, ActorId(13 + i));
  EXPECT_THROW(EventRing(0), Error);
}

TEST(EventRing, ReadReturnsEveryFieldAsItWasWritten) {
  EventRing ring(4);
  ring.update_time();
  ring.act(EventKind::began, 2, 0x1'0000'0009, ActorId(11), 0x2'0000'0005);
  Message message;
  message.kind = Message::Kind::returned;
  message.slot = 6;
  message.to = session_actor;
  message.reg = RegisterId(70000);
  message.piece = 12;
  ring.message(EventKind::posted, 2, 9, message);
  ring.launch(EventKind::launch_ended, 2, 9);
  EventLog log = ring.read();
  ASSERT_EQ(log.events.size(), 3u);
  std::int64_t time = log.events[0].time;
  EXPECT_GT(time, 0);
  EXPECT_EQ(log.events[0],
            (Event{time, 9, 5, 2, ActorId(11), RegisterId(), -1, EventKind::began, Message::Kind::filled}))
      << "ticket and piece must be kept modulo 2^32";
  EXPECT_EQ(log.events[1],
            (Event{time, 9, 12, 2, session_actor, RegisterId(70000), 6, EventKind::posted, Message::Kind::returned}));
  EXPECT_EQ(log.events[2],
            (Event{time, 9, 0, 2, session_actor, RegisterId(), -1, EventKind::launch_ended, Message::Kind::filled}));
}

// Entries take the most cells if plan, launch and time change with every entry.
TEST(EventRing, EntriesThatShareNoDataWithTheirNeighboursAreReadCompletely) {
  EventRing ring(64);
  std::vector<Event> written;
  for (int i = 0; i < 1000; ++i) {
    Message m{Message::Kind::filled, static_cast<std::int16_t>(i % 7), 0, ActorId(i), RegisterId(2 * i), 0, 3 * i};
    ring.update_time();
    ring.message(EventKind::taken, i % 3, static_cast<std::uint64_t>(i), m);
    written.push_back({0, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(3 * i), i % 3, m.to, m.reg, m.slot,
                       EventKind::taken, Message::Kind::filled});
    EventLog log = ring.read();
    ASSERT_EQ(log.events.size(), std::min<std::size_t>(written.size(), 64));
    ASSERT_EQ(log.overwritten, written.size() - log.events.size());
    for (std::size_t k = 0; k < log.events.size(); ++k) {
      if (k > 0) { ASSERT_GE(log.events[k].time, log.events[k - 1].time); }
      log.events[k].time = 0;
      ASSERT_EQ(log.events[k], written[log.overwritten + k]) << "entry " << log.overwritten + k;
    }
  }
}

TEST(EventRing, AMessageHasTheTimeOfTheLastUpdate) {
  EventRing ring(64);
  Message message{Message::Kind::returned, 1, 0, ActorId(4), RegisterId(5), 0, 0};
  std::vector<std::int64_t> before;
  for (EventKind kind : {EventKind::taken, EventKind::ended}) {
    before.push_back(ticks());
    ring.update_time();
    before.push_back(ticks());
    if (kind == EventKind::taken) ring.message(kind, 1, 1, message);
    else ring.act(kind, 1, 1, ActorId(4), 0);
    ring.sent(EventKind::handed, message);
  }
  EventLog log = ring.read();
  ASSERT_EQ(log.events.size(), 4u);
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_GE(log.events[k].time, before[k / 2 * 2]) << "entry " << k;
    EXPECT_LE(log.events[k].time, before[k / 2 * 2 + 1]) << "entry " << k;
    EXPECT_EQ(log.events[k].plan, 1);
    EXPECT_EQ(log.events[k].ticket, 1u);
  }
}

// The entries need one, two or three cells each. The less data neighbours share, the sooner the writer overtakes the
// reader.
TEST(EventRing, AConcurrentReaderSeesOnlyWholeEntriesInOrder) {
  for (int cells : {1, 2, 3}) {
    EventRing ring(16);
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      for (int i = 0; !stop.load(); i = (i + 1) % 1000000) {
        int plan = cells == 1 ? 0 : i;
        if (cells == 3) ring.update_time();
        ring.message(EventKind::taken, plan, static_cast<std::uint64_t>(plan),
                     {Message::Kind::filled, 0, 0, ActorId(i), RegisterId(i), 0, i});
      }
    });
    struct End {
      std::atomic<bool>& stop;
      std::thread& writer;
      ~End() { stop = true, writer.join(); }
    } end{stop, writer};
    int entries_read = 0, overtaken = 0;  // stops after 200 reads that were overtaken, or after half a second
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    for (int round = 0;
         entries_read == 0 || round < 5000 || (overtaken < 200 && std::chrono::steady_clock::now() < until); ++round) {
      EventLog log = ring.read();
      overtaken += log.overwritten > 0 && log.events.size() < 16;
      for (std::size_t k = 0; k < log.events.size(); ++k) {
        const Event& e = log.events[k];
        ASSERT_EQ(e.reg.index, e.actor.index);
        ASSERT_EQ(static_cast<int>(e.piece), e.actor.index);
        ASSERT_EQ(e.plan, cells == 1 ? 0 : e.actor.index);
        ASSERT_EQ(static_cast<int>(e.ticket), e.plan);
        if (k > 0) { ASSERT_EQ(e.actor.index, (log.events[k - 1].actor.index + 1) % 1000000); }
        ++entries_read;
      }
      ASSERT_LE(log.events.size(), 16u);
    }
  }
}

// The event logs of some launches of a random graph.
struct Recorded {
  RandomGraph graph;
  std::vector<EventLog> logs;
  int number;
  Recorded(unsigned seed, int workers, int launches) : graph(seed, workers) {
    KernelTable table(test_kernels());
    Session session({.workers = workers, .events = 1 << 15}, table);
    session.load(RandomGraph(seed + 1000, workers).s.plan);  // so that the graph's plan number is not 0
    number = session.load(graph.s.plan);
    auto source = array_source(HostArray::of<float>({4}, {1, 1, 1, 1}));
    for (int i = 0; i < launches; ++i) session.launch(number, {{"x", {source, 0}}}).wait();
    session.wait_graph();  // when a worker answers, it has opened all mail of the launches
    logs = session.events();
  }
};

TEST(EventRing, TheEventsOfASessionObeyTheProtocol) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Recorded run(seed, 1 + static_cast<int>(seed % 2), 3);
    const Plan& plan = run.graph.s.plan;
    ASSERT_NO_THROW(check_protocol(plan, run.number, run.logs)) << "seed " << seed;
    std::map<EventKind, std::int64_t> count;
    ById<ActorId, std::int64_t> acts(plan.actors.size());
    std::int64_t before = 0;
    for (const EventLog& log : run.logs) {
      before = 0;
      for (const Event& e : log.events) {
        EXPECT_GE(e.time, before);
        before = e.time;
        if (e.plan != run.number) continue;
        ++count[e.kind];
        if (e.kind == EventKind::began || e.kind == EventKind::acted) ++acts[e.actor];
        if (e.kind == EventKind::launch_began) { EXPECT_EQ(e.ticket, count[e.kind]); }
        if (e.kind == EventKind::ended) { EXPECT_TRUE(e.ticket >= 1 && e.ticket <= 3); }
      }
    }
    EXPECT_EQ(count[EventKind::launch_began], 3);
    EXPECT_EQ(count[EventKind::launch_ended], 3);
    EXPECT_EQ(count[EventKind::handed] + count[EventKind::posted], 3 * messages_per_launch(plan));
    EXPECT_EQ(count[EventKind::posted], count[EventKind::taken]);
    EXPECT_EQ(count[EventKind::began], count[EventKind::ended]);
    auto due = acts_per_launch(plan);
    for (ActorId a : acts.ids()) EXPECT_EQ(acts[a], 3 * due[a]);
  }
}

TEST(EventRing, TheEventsOfTheSimulatorObeyTheProtocol) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    RandomGraph graph(seed, 3);
    Simulation run = simulate(graph.s.plan, {.seed = seed, .launches = 2, .delay = 3.0});
    ASSERT_EQ(run.events.size(), 3u);
    ASSERT_NO_THROW(check_protocol(graph.s.plan, 0, run.events)) << "seed " << seed;
    std::int64_t sent = 0;
    for (const EventLog& log : run.events)
      for (const Event& e : log.events) sent += e.kind == EventKind::posted;
    EXPECT_EQ(sent, run.messages);
  }
}

// A log in which one entry is missing or duplicate violates the protocol, except for a few entries at its end.
TEST(EventRing, AReplayDetectsEveryMissingOrDuplicateEntry) {
  Recorded run(5, 2, 2);
  const Plan& plan = run.graph.s.plan;
  auto is_valid = [&](const std::vector<EventLog>& logs) {
    try {
      check_protocol(plan, run.number, logs);
    } catch (const Error&) { return false; }
    return true;
  };
  ASSERT_TRUE(is_valid(run.logs));
  int entries_checked = 0;
  for (std::size_t w = 0; w < run.logs.size(); ++w)
    for (std::size_t k = 0; k < run.logs[w].events.size(); ++k) {
      const Event& event = run.logs[w].events[k];
      if (event.plan != run.number) continue;
      bool last_taken = event.kind == EventKind::taken;  // a token returned after the last act may be missing
      auto logs_without = run.logs, logs_with_duplicate = run.logs;
      logs_without[w].events.erase(logs_without[w].events.begin() + static_cast<std::ptrdiff_t>(k));
      logs_with_duplicate[w].events.insert(logs_with_duplicate[w].events.begin() + static_cast<std::ptrdiff_t>(k),
                                           event);
      bool needed = !last_taken;
      if (last_taken && event.actor != session_actor)
        for (std::size_t later = k; later < run.logs[w].events.size(); ++later) {
          const Event& e = run.logs[w].events[later];
          if (event.message == Message::Kind::filled && e.plan == run.number && e.kind == EventKind::began &&
              e.actor == event.actor)
            needed = true;
        }
      if (needed) {
        EXPECT_FALSE(is_valid(logs_without))
            << "worker " << w << ", without entry " << k << " (" << name_of(event.kind) << ")";
      }
      EXPECT_FALSE(is_valid(logs_with_duplicate))
          << "worker " << w << ", entry " << k << " twice (" << name_of(event.kind) << ")";
      ++entries_checked;
    }
  EXPECT_GT(entries_checked, 50);
}

TEST(EventRing, AReplayDetectsASlotThatIsFilledWhileItIsRead) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  s.start(a, 2);
  RegisterId r = s.edge(a, {b}, 2);
  s.done(b, 2);
  s.plan.actors[a].priority = 1;  // a fills both slots before b reads the first
  s.plan.actors[b].priority = 2;
  KernelTable table(test_kernels());
  Session session({.workers = 1}, table);
  int plan = session.load(s.plan);
  session.launch(plan).wait();
  auto logs = session.events();
  ASSERT_NO_THROW(check_protocol(s.plan, plan, logs));
  int moved = 0;
  for (Event& event : logs[0].events)
    if (event.reg == r && event.slot == 1 && event.message == Message::Kind::filled) event.slot = 0, ++moved;
  ASSERT_EQ(moved, 1);
  try {
    check_protocol(s.plan, plan, logs);
    ADD_FAILURE() << "the filled slot was not detected";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("fills slot 0 of r1 before all consumers have returned it"),
              std::string::npos)
        << error.what();
  }
}

TEST(EventRing, AFailureIsRecordedAndEventsCanBeReadAfterIt) {
  KernelTable table(test_kernels());
  Session session({.workers = 1, .events = 64}, table);
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  s.start(a);
  s.edge(a, {b});
  s.done(b);
  s.call(a, "test.fail", {}, {}, {{"at", std::int64_t{2}}});
  s.call(b, "test.fail", {}, {}, {{"at", std::int64_t{9}}});
  int plan = session.load(s.plan);
  session.launch(plan).wait();
  EXPECT_THROW(session.launch(plan).wait(), Error);
  auto logs = session.events();
  ASSERT_EQ(logs.size(), 1u);
  EXPECT_NO_THROW(check_protocol(s.plan, plan, logs));
  std::vector<std::pair<EventKind, int>> acts;  // of the second launch
  for (const Event& e : logs[0].events)
    if (e.ticket == 2 && (e.kind == EventKind::failed || e.kind == EventKind::began || e.kind == EventKind::ended ||
                          e.kind == EventKind::acted))
      acts.emplace_back(e.kind, e.actor.index);
  EXPECT_EQ(acts, (std::vector<std::pair<EventKind, int>>{
                      {EventKind::began, 0}, {EventKind::failed, 0}, {EventKind::ended, 0}, {EventKind::acted, 1}}));
}

TEST(EventRing, ASessionKeepsTheNumberOfEntriesInItsOptions) {
  KernelTable table(test_kernels());
  Session session({.workers = 1, .events = 16}, table);
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  int plan = session.load(s.plan);
  // A launch takes 7 entries: its begin, its end, 1 act and 4 messages.
  for (int i = 0; i < 10; ++i) session.launch(plan).wait();
  auto logs = session.events();
  ASSERT_EQ(logs.size(), 1u);
  EXPECT_EQ(logs[0].events.size(), 16u);
  EXPECT_EQ(logs[0].overwritten, 54u);
  EXPECT_EQ(logs[0].events.back().ticket, 10u);
  EXPECT_THROW(check_protocol(s.plan, plan, logs), Error)
      << "the first entries are overwritten, so the check must fail";
}

}  // namespace
}  // namespace karez::runtime
