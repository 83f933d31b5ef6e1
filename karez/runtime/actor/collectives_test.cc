// Tests of collectives in sessions: values, bytes, turns, several communicators on few workers, and failures during
// collectives.
#include "karez/runtime/actor/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "karez/comm/collective/collective.h"
#include "karez/comm/collective/collective_counts.h"
#include "karez/comm/collective/test_collectives.h"
#include "karez/comm/transport/test_failing_link.h"
#include "karez/data/array_source.h"
#include "karez/plan/acts.h"
#include "karez/runtime/actor/test_grid.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Collectives, ManyMembersOnFewWorkersDoNotDeadlockAndBytesAreCounted) {
  for (int workers : {1, 2})
    for (const char* algorithm : {"ring", "direct", "recursive"})
      for (auto [rows, columns] : {std::pair{1, 2}, std::pair{2, 2}, std::pair{1, 4}}) {
        Grid grid(rows, columns, 2, 1000, algorithm, workers);
        KernelTable table({Grid::kernel()});
        Session session({.workers = workers}, table);
        int plan = session.load(grid.s.plan);
        std::vector<float> x(static_cast<std::size_t>(rows * columns) * 1000);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17);  // small integers: sums are exact
        Feed feed{array_source(HostArray::of<float>({static_cast<std::int64_t>(x.size())}, x)), 0};
        constexpr int launches = 20;
        for (int i = 0; i < launches; ++i) {
          Launch launch = session.launch(plan, {{"x", feed}});
          finish(session, launch);
          for (int d = 0; d < rows * columns; ++d)
            for (std::int64_t e = 0; e < 1000; ++e)
              ASSERT_EQ(launch.output(cat("y", d)).data<float>()[static_cast<std::size_t>(e)], grid.expected(e, x))
                  << algorithm << " device " << d << " element " << e;
        }
        auto bytes = [&](int members, int groups) {
          return groups * comm::test::planned_bytes(plan::CollectiveKind::all_reduce,
                                                    plan::collective_algorithm_from(algorithm), members, 4000);
        };
        Counters counters = session.counters();
        EXPECT_EQ(counters.sent_bytes.at("all_reduce"), launches * 2 * (bytes(columns, rows) + bytes(rows, columns)));
        EXPECT_EQ(counters.messages, launches * messages_per_launch(grid.s.plan));
      }
}

// Two devices with one communicator, whose turns are x and y, of different sizes. On device 0 x is ready first. On
// device 1 y is ready first, because x comes after a chain of actors of low priority.
TEST(Collectives, ACollectiveThatIsReadyBeforeItsTurnWaits) {
  for (int workers : {1, 2})
    for (const char* algorithm : {"ring", "direct", "flat", "recursive"}) {
      PlanBuilder s(2, "turns");
      s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]}, 64, {"x", "y"}});
      const std::int64_t counts[2] = {100, 60};
      for (int d = 0; d < 2; ++d)
        for (int turn : {0, 1}) {
          const char* name = turn == 0 ? "x" : "y";
          View view(DType::f32, {counts[turn]});
          ActorId in = s.actor(cat(name, ".in.", d), d, d, BodyKind::input), last = in;
          s.start(in);
          RegisterId from;
          for (int link = 0; link < (d == 1 && turn == 0 ? 5 : 0); ++link) {  // device 1: x is late
            ActorId next = s.actor(cat("chain.", link), d, d);
            RegisterId to = s.edge(last, {next}, 1, view.bytes());
            if (link > 0) s.call(last, "test.relu", {in_register(from, view)}, {in_register(to, view)});
            from = to;
            if (last == in) s.plan.actors[in].bound = {in_register(to, view)};
            s.plan.actors[next].priority = 5;
            last = next;
          }
          ActorId all = s.actor(cat(name, ".", d), d, d, BodyKind::collective);
          RegisterId to = s.edge(last, {all}, 1, view.bytes());
          if (last == in) s.plan.actors[in].bound = {in_register(to, view)};
          else s.call(last, "test.relu", {in_register(from, view)}, {in_register(to, view)});
          Actor& input = s.plan.actors[in];
          input.binding = name;
          input.slices = {Attrs{{"begin", Ints{d * counts[turn]}}, {"shape", Ints{2 * counts[turn]}}}};
          ActorId out = s.actor(cat(name, ".out.", d), d, d, BodyKind::fetch);
          RegisterId result = s.edge(all, {out}, 1, view.bytes());
          s.done(out);
          s.plan.actors[out].binding = cat(name, d);
          s.plan.actors[out].bound = {in_register(result, view)};
          Collective c{CommunicatorId(0),
                       CollectiveKind::all_reduce,
                       Reduce::sum,
                       {turn},
                       in_register(to, view),
                       in_register(result, view),
                       {},
                       {},
                       {},
                       "",
                       collective_algorithm_from(algorithm)};
          comm::CollectiveSpec spec;
          spec.algorithm = plan::collective_algorithm_from(algorithm);
          spec.members = 2;
          spec.member = d;
          spec.chunk = 64;
          spec.in = spec.out = view;
          if (std::int64_t staging = comm::staging_bytes(spec); staging > 0)
            c.staging = in_block(s.block(BlockKind::scratch, d, staging), View(DType::b8, {staging}));
          s.plan.actors[all].collective = c;
          s.plan.actors[all].priority = -turn;
        }
      KernelTable table(test_kernels());
      Session session({.workers = workers}, table);
      int plan = session.load(s.plan);
      std::vector<float> x(200), y(120);
      std::iota(x.begin(), x.end(), 0.0f);
      std::iota(y.begin(), y.end(), 1000.0f);
      Feed fx{array_source(HostArray::of<float>({200}, x)), 0}, fy{array_source(HostArray::of<float>({120}, y)), 0};
      for (int i = 0; i < 20; ++i) {
        Launch launch = session.launch(plan, {{"x", fx}, {"y", fy}});
        finish(session, launch);
        for (int d = 0; d < 2; ++d) {
          for (std::size_t e = 0; e < 100; ++e)
            ASSERT_EQ(launch.output(cat("x", d)).data<float>()[e], x[e] + x[e + 100]) << algorithm;
          for (std::size_t e = 0; e < 60; ++e)
            ASSERT_EQ(launch.output(cat("y", d)).data<float>()[e], y[e] + y[e + 60]) << algorithm;
        }
      }
      // According to the events each device runs x before y, although y was ready first on device 1.
      std::vector<std::string> began[2];
      for (const EventLog& log : session.events())
        for (const Event& e : log.events)
          if (e.kind == EventKind::began && e.plan == plan)
            if (const Actor& a = s.plan.actor(e.actor); a.collective)
              began[a.name.back() - '0'].push_back(a.name.substr(0, 1));
      for (int d = 0; d < 2; ++d) {
        ASSERT_EQ(began[d].size(), 40u);
        for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(began[d][i], i % 2 == 0 ? "x" : "y");
      }
    }
}

// A source that fails for the second of two members. The first member must not wait for the second.
class PartlyFailingSource : public Source {
 public:
  explicit PartlyFailingSource(std::int64_t bad_from) : bad_from_(bad_from) {}
  TensorType type() const override { return {DType::f32, {200}}; }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    require(position < bad_from_ || begin[0] == 0, "rows from ", begin[0], " cannot be read");
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = 1;
  }

 private:
  std::int64_t bad_from_;
};

TEST(Collectives, AMembersFailureDoesNotBlockOtherMembers) {
  for (int workers : {1, 2})
    for (int repeat = 0; repeat < 20; ++repeat) {
      Grid grid(1, 2, 3, 100, repeat % 2 ? "ring" : "direct", workers);
      KernelTable table({Grid::kernel()});
      Session session({.workers = workers}, table);
      int plan = session.load(grid.s.plan);
      auto source = std::make_shared<PartlyFailingSource>(1);
      finish(session, session.launch(plan, {{"x", {source, 0}}}));
      Launch launch = session.launch(plan, {{"x", {source, 1}}});
      try {
        finish(session, launch);
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()),
                  "input.1 at sketch.cc:1: rows from 100 cannot be read [launch 2, actor 'input.1', device 0.1]");
      }
    }
}

// A link whose arrivals are noticed only by polling. It does not notify by itself.
class QuietLink : public comm::Link {
 public:
  QuietLink(std::unique_ptr<comm::Link> link, comm::Notifier& notifier) : link_(std::move(link)), notifier_(notifier) {}
  void post_receive(std::byte* into, std::int64_t bytes) override { link_->post_receive(into, bytes); }
  void send(const std::byte* from, std::int64_t bytes) override { link_->send(from, bytes); }
  std::int64_t received() const override { return seen_; }
  std::int64_t sent() const override { return link_->sent(); }
  std::int64_t bytes_sent() const override { return link_->bytes_sent(); }
  int depth() const override { return link_->depth(); }
  ~QuietLink() override { EXPECT_FALSE(polling_) << "the thread did not end busy polling before it slept"; }
  void set_busy_poll(bool polling) override { polling_ = polling; }
  void poll() override {
    EXPECT_TRUE(polling_) << "a thread polls without having started busy polling, so its peers wake it needlessly";
    const std::int64_t arrived = link_->received();
    if (arrived == seen_) return;
    seen_ = arrived;
    notifier_.notify();
  }

 private:
  std::unique_ptr<comm::Link> link_;
  comm::Notifier& notifier_;
  bool polling_ = false;
  std::int64_t seen_ = 0;
};

// A link that notifies once more when it is closed, as if the peer disconnected at that moment.
class LastNotifyLink : public QuietLink {
 public:
  LastNotifyLink(std::unique_ptr<comm::Link> link, comm::Notifier& notifier)
      : QuietLink(std::move(link), notifier),
        closing_(notifier) {}
  ~LastNotifyLink() override {
    closing_.acknowledge();
    closing_.notify();
  }

 private:
  comm::Notifier& closing_;
};

// The target of the notification must still exist; otherwise AddressSanitizer reports an error.
TEST(Collectives, LinksNotifyUntilTheyAreClosed) {
  Grid grid(1, 2, 2, 1000, "direct", 2);
  KernelTable table({Grid::kernel()});
  auto notify_on_close = [](comm::Endpoint& endpoint) {
    const int peer = 1 - endpoint.member();
    if (endpoint.members() == 2)
      endpoint.connect(peer, std::make_unique<LastNotifyLink>(endpoint.connect(peer, nullptr), endpoint.notifier()));
  };
  Session session({.workers = 2, .spin_microseconds = 100'000'000, .on_endpoint = notify_on_close}, table);
  const std::vector<float> x(2000, 1.0f);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int plan = session.load(grid.s.plan);
    Launch launch = session.launch(plan, {{"x", Feed{array_source(HostArray::of<float>({2000}, x)), 0}}});
    finish(session, launch);
    EXPECT_EQ(launch.output("y0").data<float>()[0], grid.expected(0, x));
    if (attempt == 0) session.reload();
  }
}

TEST(Collectives, APollingWorkerChecksItsLinksWithoutBeingNotified) {
  for (int workers : {1, 2}) {
    Grid grid(1, 2, 2, 1000, "direct", workers);
    KernelTable table({Grid::kernel()});
    auto use_quiet_links = [](comm::Endpoint& endpoint) {
      const int peer = 1 - endpoint.member();
      if (endpoint.members() == 2)
        endpoint.connect(peer, std::make_unique<QuietLink>(endpoint.connect(peer, nullptr), endpoint.notifier()));
    };
    Session session({.workers = workers, .spin_microseconds = 100'000'000, .on_endpoint = use_quiet_links}, table);
    const int plan = session.load(grid.s.plan);
    const std::vector<float> x(2000, 1.0f);
    const Feed feed{array_source(HostArray::of<float>({2000}, x)), 0};
    Launch launch = session.launch(plan, {{"x", feed}});
    finish(session, launch);
    EXPECT_EQ(launch.output("y0").data<float>()[0], grid.expected(0, x));
  }
}

// A link breaks while four launches are in flight. At that time members are in different launches, and some members
// have sent all messages of an earlier launch.
TEST(Collectives, ABrokenLinkFailsAllLaunchesInFlightAndAReloadRestoresTheSession) {
  int broken = 0, aborted = 0, aborted_earlier = 0;
  for (int workers : {1, 2})
    for (const char* algorithm : {"ring", "direct", "flat", "recursive"})
      for (std::int64_t at = 0; at < 60; ++at) {
        Grid grid(2, 2, 2, 100, algorithm, workers);
        KernelTable table({Grid::kernel()});
        comm::FailingLinks links;
        links.at = at;
        Session session({.workers = workers,
                         .poison = true,
                         .delays = {.max_microseconds = 20, .seed = static_cast<std::uint64_t>(at)},
                         .on_endpoint = std::ref(links)},
                        table);
        std::vector<float> x(400);
        std::iota(x.begin(), x.end(), 0.0f);
        Feed feed{array_source(HostArray::of<float>({400}, x)), 0};
        auto expect_sums = [&](const Launch& launch) {
          for (int d = 0; d < 4; ++d)
            for (std::int64_t e = 0; e < 100; ++e)
              ASSERT_EQ(launch.output(cat("y", d)).data<float>()[static_cast<std::size_t>(e)], grid.expected(e, x));
        };
        int plan = session.load(grid.s.plan);
        std::vector<Launch> launches;
        try {
          for (int i = 0; i < 8; ++i) launches.push_back(session.launch(plan, {{"x", feed}}));
        } catch (const Error& error) {
          EXPECT_EQ(error.kind, ErrorKind::peer);
          EXPECT_THAT(error.what(), StartsWith("the state of this session is unusable, because a launch failed ("));
        }
        bool failed = false;
        for (const Launch& launch : launches) {
          try {
            finish(session, launch);
            EXPECT_FALSE(failed) << "launch " << launch.ticket() << " succeeded after a failed launch";
            expect_sums(launch);
          } catch (const Error& error) {
            const std::string text = error.what(), name = cat("launch ", launch.ticket());
            EXPECT_EQ(error.kind, ErrorKind::peer) << text;
            const bool own_error = text.starts_with("all_reduce at net.cc:"),
                       was_aborted = text.starts_with(name + " was aborted: the link from member ");
            EXPECT_TRUE(own_error || was_aborted ||
                        text.starts_with(
                            name + " did not run: the state of this session is unusable, because a launch failed ("))
                << text;
            if (own_error) {
              EXPECT_THAT(text, AllOf(HasSubstr(": the link from member "),
                                      HasSubstr(cat(" broke [", name, ", actor 'all_reduce."))));
            }
            broken += own_error, aborted += was_aborted;
            aborted_earlier += was_aborted && !failed;
            failed = true;
          }
        }
        EXPECT_TRUE(failed) << at;
        links.at = INT64_MAX;
        session.reload();
        plan = session.load(grid.s.plan);
        for (int i = 0; i < 3; ++i) {
          Launch launch = session.launch(plan, {{"x", feed}});
          finish(session, launch);
          expect_sums(launch);
        }
      }
  EXPECT_GE(broken, 360);
  EXPECT_GT(aborted, 0);
  EXPECT_GT(aborted_earlier, 0) << "expected aborted launches before the launch whose link broke";
}

TEST(Collectives, TooLittleStagingMakesTheLoadFail) {
  Grid grid(1, 2, 1, 100, "direct", 1);
  for (Actor& actor : grid.s.plan.actors)
    if (actor.collective) actor.collective->staging.reset();
  KernelTable table({Grid::kernel()});
  Session session({}, table);
  try {
    session.load(grid.s.plan);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bytes of staging, but the plan gives 0"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace karez::runtime
