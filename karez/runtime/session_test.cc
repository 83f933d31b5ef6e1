// Tests of sessions that run small plans on worker threads: values, feeds, the order of launches, and errors.
#include "karez/runtime/session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/device/cpu_budget.h"
#include "karez/plan/acts.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

const KernelTable& kernels() {
  static const KernelTable table(test_kernels());
  return table;
}

Feed feed_of(Shape shape, const std::vector<float>& values) {
  return {array_source(HostArray::of<float>(std::move(shape), values)), 0};
}

// A plan that computes y = relu(x w) with actors on two workers.
const char* matmul_relu = R"(
plan "matmul_relu" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
stream 1: "compute" device 0 worker 1
block b0: register device 0 bytes 128
block b1: register device 0 bytes 64
block b2: register device 0 bytes 64
block b3: variable device 0 bytes 16 name "w" layout "f32[2, 2]"
register r0: session -> a0
register r1: session -> a1
register r2: a0 -> a2 slots 2 bytes 16 in b0 stride 64 type "f32[2, 2]"
register r3: a1 -> a2 bytes 16 in b3 stride 64 type "w f32[2, 2]"
register r4: a2 -> a3 bytes 16 in b1 stride 64 type "f32[2, 2]"
register r5: a3 -> a4 bytes 16 in b2 stride 64 type "f32[2, 2]"
register r6: a4 -> session
actor a0: input "x" stream 0 in r0 out r2 binding "x" at "input at net.cc:1"
  bound r2 f32[2, 2]
  slice {begin=[0, 0], shape=[2, 2]}
actor a1: state "w" stream 0 in r1 out r3
actor a2: compute "matmul" stream 0 in r2, r3 out r4
  call "test.matmul" in r2 f32[2, 2], r3 f32[2, 2] out r4 f32[2, 2] at "matmul at net.cc:2"
actor a3: compute "relu" stream 1 in r4 out r5
  call "test.relu" in r4 f32[2, 2] out r5 f32[2, 2] at "relu at net.cc:3"
actor a4: fetch "y" stream 0 in r5 out r6 binding "y"
  bound r5 f32[2, 2]
)";

const View two_by_two(DType::f32, {2, 2});
const PlanDevice first_device{0, 0, "cpu"};

TEST(Session, TwoActorsOnTwoWorkersComputeMatmulAndRelu) {
  Session session({.workers = 2}, kernels());
  int plan = session.load(parse_plan(matmul_relu));
  session.write_variable("w", first_device, two_by_two, HostArray::of<float>({2, 2}, {1, 2, 3, -4}));
  Launch launch = session.launch(plan, {{"x", feed_of({2, 2}, {1, 1, 2, -1})}});
  finish(session, launch);
  const HostArray actual = launch.output("y");
  auto y = actual.data<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{4, 0, 0, 8}));
  EXPECT_EQ(error_of([&] { launch.output("z"); }), "launch 1 has no output 'z'; there is 1: y");
}

TEST(Session, LaunchesRunInTheOrderOfTicketsAndVariablesKeepTheirValues) {
  Session session({.workers = 2, .poison = false}, kernels());
  int plan = session.load(counting_plan());
  std::vector<Launch> launches;
  for (int i = 0; i < 50; ++i) launches.push_back(session.launch(plan));
  finish(session, launches.back());
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(launches[static_cast<std::size_t>(i)].ticket(), static_cast<std::uint64_t>(i + 1));
    EXPECT_EQ(launches[static_cast<std::size_t>(i)].output("n").data<float>()[0], static_cast<float>(i + 1));
  }
}

TEST(Session, WaitAllLaunchesWaitsForEarlierLaunches) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  KernelTable table({test_row("hold", [&released](const CallSpec&) -> PreparedKernel {
    return [&released](const KernelArgs&) { released.wait(); };
  })});
  Session session({.workers = 1}, table);
  PlanBuilder s;
  const ActorId a = s.actor("a");
  s.start(a), s.done(a), s.call(a, "test.hold", {}, {});
  const int plan = session.load(s.plan);
  session.wait_all_launches();  // returns immediately
  Launch first = session.launch(plan), second = session.launch(plan);
  auto waits = std::async(std::launch::async, [&] { session.wait_all_launches(); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  EXPECT_FALSE(first.done());
  release.set_value();
  waits.get();
  EXPECT_TRUE(first.done() && second.done());
}

TEST(Session, AKernelWithATooSmallWorkspaceIsRejected) {
  std::vector<KernelRow> rows = test_kernels();
  KernelRow row = test_row("scratchy", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) { args.workspace[99] = std::byte{1}; };
  });
  row.workspace = [](const CallSpec&) { return std::int64_t{100}; };
  rows.push_back(row);
  KernelTable table(std::move(rows));
  Session session({}, table);
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  s.call(a, "test.scratchy", {}, {});
  EXPECT_EQ(error_of([&] { session.load(s.plan); })
                .find("plan 'sketch', test.scratchy at sketch.cc:2: kernel test.scratchy needs 100 bytes of "
                      "workspace for "),
            0u);
  Call& call = s.plan.actors[a].calls[0];
  call.workspace = in_block(s.block(BlockKind::scratch, 0, 128), View(DType::b8, {99}));
  EXPECT_NE(error_of([&] { session.load(s.plan); }).find(", but the plan gives 99"), std::string::npos);
  call.workspace->view = View(DType::b8, {100});
  EXPECT_NO_THROW(session.launch(session.load(s.plan)).wait());
}

// A source that records every position that is read.
class RecordingSource : public Source {
 public:
  TensorType type() const override { return {DType::f32, {4}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const TensorRef& out) const override {
    positions.push_back(position);
    for (int i = 0; i < 4; ++i) out.as<float>()[i] = static_cast<float>(position);
  }
  mutable std::vector<std::int64_t> positions;
};

TEST(Session, AnInputThatActsTwiceInALaunchReadsTheFedPositionAndTheNextOne) {
  Session session({.workers = 2, .poison = false}, kernels());
  PlanBuilder s;  // the input acts twice in a launch; each batch is copied to the variable "last"
  ActorId in = s.actor("in", 1, 0, BodyKind::input), sink = s.actor("sink");
  s.start(in, 2);
  RegisterId x = s.edge(in, {sink}, 2, 16);
  s.done(sink, 2);
  Actor& a = s.plan.actors[in];
  a.binding = "x";
  a.bound = {in_register(x, test_vector)};
  a.slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
  BlockId last = s.block(BlockKind::variable, 0, 16, "last", "f32[4]");
  s.call(sink, "test.sum", {in_register(x, test_vector)}, {in_block(last, test_vector)});
  int plan = session.load(s.plan);
  auto source = std::make_shared<RecordingSource>();
  std::vector<std::int64_t> due;
  for (std::int64_t position : {10, 20, 12}) {
    finish(session, session.launch(plan, {{"x", {source, position}}}));
    due.insert(due.end(), {position, position + 1});
    EXPECT_EQ(source->positions, due);
    EXPECT_EQ(session.read_variable("last", first_device, test_vector).data<float>()[0],
              static_cast<float>(position + 1));
  }
}

// A launch has four acts. They read a batch of eight elements in two halves, and then the next batch. The first act
// copies its half to "sums", the other acts add theirs, and the last act makes one more call.
TEST(Session, CallsRunOnlyInTheirActsAndInputsReadTheSliceOfEachAct) {
  for (int workers : {1, 2}) {
    Session session({.workers = workers, .poison = false}, kernels());
    PlanBuilder s;
    ActorId in = s.actor("in", 1, 0, BodyKind::input), add = s.actor("add");
    s.start(in, 4);
    RegisterId x = s.edge(in, {add}, 2, 16);
    s.done(add, 4);
    Actor& a = s.plan.actors[in];
    a.binding = "x";
    a.bound = {in_register(x, test_vector)};
    for (std::int64_t begin : {0, 4}) a.slices.push_back(Attrs{{"begin", Ints{begin}}, {"shape", Ints{8}}});
    BlockId sums = s.block(BlockKind::variable, 0, 16, "sums", "f32[4]");
    const Operand sum = in_block(sums, test_vector), part = in_register(x, test_vector);
    s.call(add, "test.sum", {part}, {sum});
    s.call(add, "test.sum", {sum, part}, {sum});
    s.call(add, "test.sum", {sum}, {sum}, Attrs().set("bias", 1000.0));
    auto& calls = s.plan.actors[add].calls;
    calls[0].acts = {0, 1}, calls[1].acts = {1, 4}, calls[2].acts = {3, 4};
    int plan = session.load(s.plan);
    struct Eight : data::Source {
      TensorType type() const override { return {DType::f32, {8}}; }
      void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
        for (int i = 0; i < 4; ++i) out.as<float>()[i] = static_cast<float>(100 * position + begin[0] + i);
      }
    };
    auto source = std::make_shared<Eight>();
    for (std::int64_t position : {0, 1, 0}) {
      finish(session, session.launch(plan, {{"x", {source, position}}}));
      HostArray value = session.read_variable("sums", first_device, test_vector);
      for (std::int64_t i = 0; i < 4; ++i)  // elements i and i + 4 of two batches
        EXPECT_EQ(value.data<float>()[static_cast<std::size_t>(i)],
                  static_cast<float>(1000 + 200 * (2 * position + 1) + 4 * i + 8))
            << position;
    }
  }
}

TEST(Session, SetupRunsOnceWhenAPlanIsLoaded) {
  PlanBuilder s;
  ActorId a = s.actor("a"), out = s.actor("out", 0, 0, BodyKind::fetch);
  BlockId constant = s.block(BlockKind::constant, 0, 16);
  s.start(a);
  RegisterId y = s.edge(a, {out}, 1, 16);
  s.done(out);
  s.call(a, "test.sum", {in_block(constant, test_vector), in_block(constant, test_vector)},
         {in_register(y, test_vector)});
  s.plan.actors[out].binding = "y";
  s.plan.actors[out].bound = {in_register(y, test_vector)};
  Call setup;
  setup.kernel = "test.sum";
  setup.attrs = {{"bias", 2.5}};
  setup.out = {in_block(constant, test_vector)};
  s.plan.setup = {setup};
  Session session({}, kernels());
  EXPECT_EQ(session.launch(session.load(s.plan)).output("y").data<float>()[3], 5);
}

TEST(Session, MessagesAndActsPerLaunchAreThoseThatThePlanPredicts) {
  PlanBuilder s;
  ActorId w = s.actor("w"), a = s.actor("a", 1), sum = s.actor("sum"), end = s.actor("end", 1),
          other = s.actor("other");
  s.start(w);
  s.start(a, 4);
  s.edge(w, {sum}, 1, 0, 1, 4);
  s.edge(a, {sum, other}, 2);
  s.edge(sum, {end}, 1, 0, 4, 1);
  s.done(end);
  s.done(other, 4);
  for (int workers : {1, 2}) {
    Session session({.workers = workers}, kernels());
    int plan = session.load(s.plan);
    for (int launch = 1; launch <= 100; ++launch) {
      finish(session, session.launch(plan));
      Counters c = session.counters();
      ASSERT_EQ(c.messages, launch * messages_per_launch(s.plan)) << workers << " workers";
      ASSERT_EQ(c.acts, launch * (1 + 4 + 4 + 1 + 4));
      ASSERT_EQ(c.launches, launch);
    }
  }
}

TEST(Session, RandomGraphsComputeCorrectValuesOnOneAndTwoWorkers) {
  const char* seed_text = std::getenv("KAREZ_SEED");
  unsigned first = seed_text ? static_cast<unsigned>(std::atoi(seed_text)) : 1;
  for (int workers : {1, 2}) {
    Session session({.workers = workers, .poison = true, .spin_microseconds = workers == 1 ? 0 : 20}, kernels());
    std::int64_t messages = 0;
    for (unsigned seed = first; seed < first + 100; ++seed) {
      RandomGraph graph(seed, 3);
      int plan = session.load(graph.s.plan);
      std::vector<Launch> launches;
      for (int i = 0; i < 3; ++i) launches.push_back(session.launch(plan, {{"x", feed_of({4}, {1, 1, 1, 1})}}));
      finish(session, launches.back());
      for (Launch& launch : launches)
        for (const auto& [name, value] : graph.expected) {
          const HostArray actual = launch.output(name);
          for (float y : actual.data<float>()) ASSERT_EQ(y, value) << "KAREZ_SEED=" << seed << ", output " << name;
        }
      messages += 3 * messages_per_launch(graph.s.plan);
      ASSERT_EQ(session.counters().messages, messages) << "KAREZ_SEED=" << seed;
    }
  }
}

TEST(Session, AFastProducerUsesNoMoreMemoryThanSlotsTimesSize) {
  constexpr int slots = 3;
  static std::atomic<int> produced{0}, consumed{0}, max_ahead{0};
  std::vector<KernelRow> rows;
  rows.push_back(test_row("make", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) {
      int ahead = ++produced - consumed;
      if (ahead > max_ahead) max_ahead = ahead;
      test_data(args.out[0])[0] = static_cast<float>(produced.load() % 1000);
    };
  }));
  rows.push_back(test_row("use", [](const CallSpec&) -> PreparedKernel {
    return [piece = std::make_shared<int>(0)](const KernelArgs& args) {
      for (int i = 0; i < 300; ++i) asm volatile("");  // ten times the work of the producer
      ++*piece;
      require(test_data(args.in[0])[0] == static_cast<float>(*piece % 1000), "piece ", *piece,
              " is not the next piece that was produced");
      ++consumed;
    };
  }));
  KernelTable table(std::move(rows));
  for (int workers : {1, 2}) {
    const int pieces = workers == 1 ? 100000 : 20000;  // a wake-up for every piece is slow if cores are shared
    produced = consumed = max_ahead = 0;
    PlanBuilder s;
    ActorId a = s.actor("make"), b = s.actor("use", 1);
    s.start(a, pieces);
    RegisterId ab = s.edge(a, {b}, slots, 1024);
    s.done(b, pieces);
    s.call(a, "test.make", {}, {in_register(ab, View(DType::f32, {256}))});
    s.call(b, "test.use", {in_register(ab, View(DType::f32, {256}))}, {});
    Session session({.workers = workers}, table);
    finish(session, session.launch(session.load(s.plan)));
    EXPECT_EQ(consumed, pieces);
    EXPECT_LE(max_ahead, slots) << "the producer must be at most this many pieces ahead";
    EXPECT_EQ(session.counters().peak_bytes.at("0.0"), slots * 1024);
  }
}

TEST(Session, ThereAreNeverMoreWorkersThanCores) {
  PlanBuilder s;
  ActorId last = session_actor;
  for (int i = 0; i < 8; ++i) {
    ActorId a = s.actor(cat("a", i), i);
    i == 0 ? s.start(a) : s.edge(last, {a});
    last = a;
  }
  s.done(last);
  Session session({.workers = 64}, kernels());
  finish(session, session.launch(session.load(s.plan)));
  EXPECT_LE(session.counters().workers, cpu_budget().cores);
  EXPECT_THROW(Session({.workers = -1}, kernels()), Error);
}

TEST(Session, InvalidFeedsAndPlansAreRejected) {
  Session session({}, kernels());
  EXPECT_EQ(error_of([&] { session.launch(0); }), "no plan 0 is loaded in this session");
  int plan = session.load(parse_plan(matmul_relu));
  EXPECT_EQ(error_of([&] { session.launch(plan); }), "input 'x' (f32[2, 2]) is not fed");
  EXPECT_EQ(error_of([&] { session.launch(plan, {{"z", {}}}); }), "plan 'matmul_relu' has no input 'z'; there is 1: x");
  EXPECT_EQ(error_of([&] { session.launch(plan, {{"x", {}}}); }), "input 'x' is fed with a null source");
  EXPECT_EQ(error_of([&] {
              session.launch(plan, {{"x", feed_of({4}, {1, 2, 3, 4})}});
            }),
            "input 'x' is f32[2, 2], but is fed with f32[4] (input at net.cc:1)");
  Plan bad = parse_plan(matmul_relu);
  bad.actors[ActorId(3)].calls[0].kernel = "test.rule";
  std::string error = error_of([&] { session.load(bad); });
  EXPECT_NE(error.find("plan 'matmul_relu', relu at net.cc:3: "), std::string::npos) << error;
  EXPECT_NE(error.find("test.relu"), std::string::npos) << "the error must list existing kernels: " << error;
  bad = parse_plan(matmul_relu);
  bad.registers[RegisterId(2)].slots = 0;
  EXPECT_NE(error_of([&] { session.load(bad); }).find("has 0 slots"), std::string::npos);
}

}  // namespace
}  // namespace karez::runtime
