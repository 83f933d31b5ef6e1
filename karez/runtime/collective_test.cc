// Tests of collectives as actors: values, bytes, turns, several communicators on few workers, and failures during
// collectives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "karez/comm/collective.h"
#include "karez/comm/test_failing_link.h"
#include "karez/data/array_source.h"
#include "karez/plan/acts.h"
#include "karez/runtime/reduce.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A grid of devices, rows x columns. Each has its own vector, which is summed `rounds` times along the row (by the
// communicator of that row) and then along the column; the result is fetched from every device.
struct Grid {
  int rows, columns, rounds;
  std::int64_t count;
  PlanBuilder s;
  std::string algorithm;

  Grid(int rows, int columns, int rounds, std::int64_t count, const std::string& algorithm, int workers)
      : rows(rows),
        columns(columns),
        rounds(rounds),
        count(count),
        s(rows * columns, "grid"),
        algorithm(algorithm) {
    std::vector<std::string> sequence;
    for (int round = 0; round < rounds; ++round) sequence.push_back(cat("round ", round));
    for (int r = 0; r < rows; ++r) {
      Communicator c{{}, 256, sequence};
      for (int k = 0; k < columns; ++k) c.members.push_back(s.plan.devices[DeviceId(r * columns + k)]);
      s.plan.communicators.push_back(c);
    }
    for (int k = 0; k < columns; ++k) {
      Communicator c{{}, 256, sequence};
      for (int r = 0; r < rows; ++r) c.members.push_back(s.plan.devices[DeviceId(r * columns + k)]);
      s.plan.communicators.push_back(c);
    }
    for (int d = 0; d < rows * columns; ++d) device(d, d % workers);
  }

  void device(int d, int worker) {
    View view(DType::f32, {count});
    ActorId last = s.actor(cat("input.", d), worker, d, BodyKind::input);
    s.start(last);
    Actor& input = s.plan.actors[last];
    input.binding = "x";
    input.slices = {Attrs{{"begin", Ints{d * count}}, {"shape", Ints{rows * columns * count}}}};
    RegisterId from{static_cast<int>(s.plan.registers.size())};
    input.bound = {in_register(from, view)};
    for (int step = 0; step < 2 * rounds; ++step) {
      CommunicatorId group(step % 2 == 0 ? d / columns : rows + d % columns);
      ActorId all = s.actor(cat("all_reduce.", step, ".", d), worker, d, BodyKind::collective);
      from = s.edge(last, {all}, 2, view.bytes());
      RegisterId to{static_cast<int>(s.plan.registers.size())};
      Collective c{group,
                   "all_reduce",
                   "sum",
                   {step / 2},
                   in_register(from, view),
                   in_register(to, view),
                   {},
                   {},
                   {},
                   cat("all_reduce at net.cc:", step),
                   algorithm};
      comm::CollectiveSpec spec{comm::kind_from("all_reduce"),
                                comm::algorithm_from(algorithm),
                                0,
                                step % 2 == 0 ? columns : rows,
                                256,
                                view,
                                view,
                                {},
                                {},
                                reduce_function("sum", DType::f32)};
      if (std::int64_t staging = comm::staging_bytes(spec); staging > 0)
        c.staging = in_block(s.block(BlockKind::scratch, d, staging), View(DType::b8, {staging}));
      s.plan.actors[all].collective = c;
      last = all;
    }
    ActorId see = s.actor(cat("see.", d), worker, d), fetch = s.actor(cat("fetch.", d), worker, d, BodyKind::fetch);
    const RegisterId sum = s.edge(last, {see}, 1, view.bytes());
    from = s.edge(see, {fetch}, 1, view.bytes());
    s.call(see, "test.see", {in_register(sum, view)}, {in_register(from, view)});
    s.plan.actors[fetch].binding = cat("y", d);
    s.plan.actors[fetch].bound = {in_register(from, view)};
    s.done(fetch);
  }

  // y = x; fails on memory that was never written, because it is poisoned.
  static KernelRow seeing() {
    return test_row("see", [](const CallSpec& c) -> PreparedKernel {
      return [n = c.out[0].count()](const KernelArgs& args) {
        for (std::int64_t i = 0; i < n; ++i) {
          require(!std::isnan(test_data(args.in[0])[i]), "element ", i, " was never written");
          test_data(args.out[0])[i] = test_data(args.in[0])[i];
        }
      };
    });
  }

  // The result on every device: the sum over all devices, times the factor of each further round.
  float expected(std::int64_t element, const std::vector<float>& x) const {
    float sum = 0;
    for (int d = 0; d < rows * columns; ++d) sum += x[static_cast<std::size_t>(d * count + element)];
    for (int round = 1; round < rounds; ++round) sum *= static_cast<float>(rows * columns);
    return sum;
  }
};

TEST(Collectives, ManyMembersOnFewWorkersDoNotDeadlockAndBytesAreCounted) {
  for (int workers : {1, 2})
    for (const char* algorithm : {"ring", "direct", "recursive"})
      for (auto [rows, columns] : {std::pair{1, 2}, std::pair{2, 2}, std::pair{1, 4}}) {
        Grid grid(rows, columns, 2, 1000, algorithm, workers);
        KernelTable table({Grid::seeing()});
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
          return groups *
                 comm::planned_bytes(comm::CollectiveKind::all_reduce, comm::algorithm_from(algorithm), members, 4000);
        };
        Counters counters = session.counters();
        EXPECT_EQ(counters.sent_bytes.at("all_reduce"), launches * 2 * (bytes(columns, rows) + bytes(rows, columns)));
        EXPECT_EQ(counters.messages, launches * messages_per_launch(grid.s.plan));
      }
}

// Two devices, one communicator with turns x, y of different sizes. On device 0 x is ready first; on device 1 y is
// ready first, while x waits for a chain of actors of low priority.
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
                       "all_reduce",
                       "sum",
                       {turn},
                       in_register(to, view),
                       in_register(result, view),
                       {},
                       {},
                       {},
                       "",
                       algorithm};
          comm::CollectiveSpec spec;
          spec.algorithm = comm::algorithm_from(algorithm);
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
      // In the recorded events each device runs x, then y, although on device 1 y was ready long before.
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

// A source that fails for the second of two members: the first member must not wait for it.
class HalfSource : public Source {
 public:
  explicit HalfSource(std::int64_t bad_from) : bad_from_(bad_from) {}
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
      KernelTable table({Grid::seeing()});
      Session session({.workers = workers}, table);
      int plan = session.load(grid.s.plan);
      auto source = std::make_shared<HalfSource>(1);
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

// A link whose arrivals are seen only by polling; it does not notify by itself.
class QuietLink : public comm::Link {
 public:
  QuietLink(std::unique_ptr<comm::Link> link, comm::Notifier& notifier) : link_(std::move(link)), notifier_(notifier) {}
  void post_receive(std::byte* into, std::int64_t bytes) override { link_->post_receive(into, bytes); }
  void send(const std::byte* from, std::int64_t bytes) override { link_->send(from, bytes); }
  std::int64_t received() const override { return seen_; }
  std::int64_t sent() const override { return link_->sent(); }
  std::int64_t bytes_sent() const override { return link_->bytes_sent(); }
  int depth() const override { return link_->depth(); }
  ~QuietLink() override { EXPECT_FALSE(polling_) << "a thread sleeps without having ended busy polling"; }
  void set_busy_poll(bool polling) override { polling_ = polling; }
  void poll() override {
    EXPECT_TRUE(polling_) << "a thread polls without having announced it: its peers wake it needlessly";
    const std::int64_t come = link_->received();
    if (come == seen_) return;
    seen_ = come;
    notifier_.notify();
  }

 private:
  std::unique_ptr<comm::Link> link_;
  comm::Notifier& notifier_;
  bool polling_ = false;
  std::int64_t seen_ = 0;
};

// Like a peer that disconnects while the link is closed: notifies once more.
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

// The target of the notification still exists: AddressSanitizer would report it otherwise.
TEST(Collectives, LinksNotifyUntilTheyAreClosed) {
  Grid grid(1, 2, 2, 1000, "direct", 2);
  KernelTable table({Grid::seeing()});
  auto notify_on_close = [](comm::Endpoint& endpoint) {
    const int peer = 1 - endpoint.member();
    if (endpoint.members() == 2)
      endpoint.connect(peer, std::make_unique<LastNotifyLink>(endpoint.connect(peer, nullptr), endpoint.notifier()));
  };
  Session session({.workers = 2, .spin_microseconds = 100'000'000, .on_endpoint = notify_on_close}, table);
  const std::vector<float> x(2000, 1.0f);
  for (int again = 0; again < 2; ++again) {
    const int plan = session.load(grid.s.plan);
    Launch launch = session.launch(plan, {{"x", Feed{array_source(HostArray::of<float>({2000}, x)), 0}}});
    finish(session, launch);
    EXPECT_EQ(launch.output("y0").data<float>()[0], grid.expected(0, x));
    if (again == 0) session.reload();
  }
}

TEST(Collectives, APollingWorkerChecksItsLinksWithoutBeingNotified) {
  for (int workers : {1, 2}) {
    Grid grid(1, 2, 2, 1000, "direct", workers);
    KernelTable table({Grid::seeing()});
    auto quieten = [](comm::Endpoint& endpoint) {
      const int peer = 1 - endpoint.member();
      if (endpoint.members() == 2)
        endpoint.connect(peer, std::make_unique<QuietLink>(endpoint.connect(peer, nullptr), endpoint.notifier()));
    };
    Session session({.workers = workers, .spin_microseconds = 100'000'000, .on_endpoint = quieten}, table);
    const int plan = session.load(grid.s.plan);
    const std::vector<float> x(2000, 1.0f);
    const Feed feed{array_source(HostArray::of<float>({2000}, x)), 0};
    Launch launch = session.launch(plan, {{"x", feed}});
    finish(session, launch);
    EXPECT_EQ(launch.output("y0").data<float>()[0], grid.expected(0, x));
  }
}

// A link breaks with four launches in flight: members are in different launches then, and some have sent all messages
// of an earlier one.
TEST(Collectives, ABrokenLinkFailsAllLaunchesInFlightAndAReloadRestoresTheSession) {
  int broke = 0, broke_off = 0, broke_off_before = 0;
  for (int workers : {1, 2})
    for (const char* algorithm : {"ring", "direct", "flat", "recursive"})
      for (std::int64_t at = 0; at < 60; ++at) {
        Grid grid(2, 2, 2, 100, algorithm, workers);
        KernelTable table({Grid::seeing()});
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
            EXPECT_FALSE(failed) << "launch " << launch.ticket() << " after a failed one";
            expect_sums(launch);
          } catch (const Error& error) {
            const std::string text = error.what(), name = cat("launch ", launch.ticket());
            EXPECT_EQ(error.kind, ErrorKind::peer) << text;
            const bool own = text.starts_with("all_reduce at net.cc:"),
                       off = text.starts_with(name + " was aborted: the link from member ");
            EXPECT_TRUE(own || off ||
                        text.starts_with(
                            name + " did not run: the state of this session is unusable, because a launch failed ("))
                << text;
            if (own) {
              EXPECT_THAT(text, AllOf(HasSubstr(": the link from member "),
                                      HasSubstr(cat(" broke [", name, ", actor 'all_reduce."))));
            }
            broke += own, broke_off += off;
            broke_off_before += off && !failed;
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
  EXPECT_GE(broke, 360);
  EXPECT_GT(broke_off, 0);
  EXPECT_GT(broke_off_before, 0) << "launches before the one with the broken link";
}

TEST(Collectives, TooLittleStagingIsAnErrorOfTheLoad) {
  Grid grid(1, 2, 1, 100, "direct", 1);
  for (Actor& actor : grid.s.plan.actors)
    if (actor.collective) actor.collective->staging.reset();
  KernelTable table({Grid::seeing()});
  Session session({}, table);
  try {
    session.load(grid.s.plan);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bytes of staging, but the plan gives 0"), std::string::npos)
        << error.what();
  }
}

TEST(Reduce, EveryTypeHasMaxAndMinAndNumbersHaveSums) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8})
    with_type(dtype, [&]<class T>() {
      T a[3] = {T(0), T(1), T(1)}, b[3] = {T(1), T(0), T(1)};
      auto run = [&](const char* kind) {
        T into[3] = {a[0], a[1], a[2]};
        reduce_function(kind, dtype)(reinterpret_cast<std::byte*>(into), reinterpret_cast<std::byte*>(b), 3);
        return std::vector<int>{static_cast<int>(into[0]), static_cast<int>(into[1]), static_cast<int>(into[2])};
      };
      EXPECT_EQ(run("max"), (std::vector<int>{1, 1, 1}));
      EXPECT_EQ(run("min"), (std::vector<int>{0, 0, 1}));
      if (dtype == DType::b8) EXPECT_THROW(reduce_function("sum", dtype), Error);
      else EXPECT_EQ(run("sum"), (std::vector<int>{1, 1, 2}));
    });
  EXPECT_EQ(reduce_function("", DType::f32), nullptr);
  EXPECT_THROW(reduce_function("mean", DType::f32), Error);
}

TEST(Reduce, IntegersWrapAndNanWins) {
  std::int32_t big = 2147483647, one = 1;
  reduce_function("sum", DType::i32)(reinterpret_cast<std::byte*>(&big), reinterpret_cast<std::byte*>(&one), 1);
  EXPECT_EQ(big, -2147483647 - 1);
  for (const char* kind : {"max", "min"})
    for (bool left : {true, false}) {
      float a = left ? std::numeric_limits<float>::quiet_NaN() : 1,
            b = left ? 1 : std::numeric_limits<float>::quiet_NaN();
      reduce_function(kind, DType::f32)(reinterpret_cast<std::byte*>(&a), reinterpret_cast<std::byte*>(&b), 1);
      EXPECT_NE(a, a) << kind << (left ? " left" : " right");
    }
}

}  // namespace
}  // namespace karez::runtime
