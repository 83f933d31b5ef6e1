// Tests of a session: hand-written plans on real workers; values, variables, feeds, order, and errors.
#include "karez/runtime/session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/device/cpu_budget.h"
#include "karez/device/memory.h"
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

// y = relu(x w) by two actors on two workers.
const char* matmul_relu = R"(
plan "matmul_relu" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
stream 1: "more" device 0 worker 1
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

TEST(Session, TwoActorsOnTwoWorkersMultiplyAndClip) {
  Session session({.workers = 2}, kernels());
  int plan = session.load(parse_plan(matmul_relu));
  session.write_variable("w", first_device, two_by_two, HostArray::of<float>({2, 2}, {1, 2, 3, -4}));
  Launch launch = session.launch(plan, {{"x", feed_of({2, 2}, {1, 1, 2, -1})}});
  finish(session, launch);
  const HostArray got = launch.output("y");
  auto y = got.data<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{4, 0, 0, 8}));
  EXPECT_EQ(error_of([&] { launch.output("z"); }), "launch 1 has no output 'z'; there is 1: y");
}

TEST(Session, VariablesAreReadAndWrittenInTheirStrides) {
  Session session({}, kernels());
  session.load(parse_plan(matmul_relu));
  View turned(DType::f32, {2, 2}, {1, 2});
  session.write_variable("w", first_device, turned, HostArray::of<float>({2, 2}, {1, 2, 3, 4}));
  auto plain = session.read_variable("w", first_device, two_by_two),
       back = session.read_variable("w", first_device, turned);
  EXPECT_EQ(plain.data<float>()[1], 3) << "stored in column-major order";
  EXPECT_EQ(back.data<float>()[1], 2);
  EXPECT_TRUE(session.has_variable("w", first_device));
  EXPECT_EQ(error_of([&] { session.read_variable("v", first_device, two_by_two); }),
            "device 0.0 has no variable 'v'; there is 1: w");
  EXPECT_EQ(error_of([&] {
              session.read_variable("w", first_device, View(DType::f32, {3, 2}));
            }),
            "variable 'w' is stored as f32[2, 2] in 16 bytes; f32[3, 2] takes 24");
  EXPECT_EQ(error_of([&] {
              session.write_variable("w", first_device, two_by_two, HostArray::of<float>({4}, {1, 2, 3, 4}));
            }),
            "variable 'w' is f32[2, 2], but is given f32[4]");
}

TEST(Session, WritingThroughAViewWithGapsLeavesTheGaps) {
  Session session({.poison = false}, kernels());
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  s.block(BlockKind::variable, 0, 32, "v", "f32[8]");
  session.load(s.plan);
  View all(DType::f32, {8}), third(DType::f32, {3}, {3});  // elements 0, 3 and 6
  session.write_variable("v", first_device, all, HostArray::of<float>({8}, {0, 1, 2, 3, 4, 5, 6, 7}));
  session.write_variable("v", first_device, third, HostArray::of<float>({3}, {-1, -2, -3}));
  HostArray whole = session.read_variable("v", first_device, all),
            part = session.read_variable("v", first_device, third);
  auto now = whole.data<float>(), read = part.data<float>();
  EXPECT_EQ(std::vector<float>(now.begin(), now.end()), (std::vector<float>{-1, 1, 2, -2, 4, 5, -3, 7}));
  EXPECT_EQ(std::vector<float>(read.begin(), read.end()), (std::vector<float>{-1, -2, -3}));
}

// A plan that adds one to the variable "n" and returns it.
Plan counting_plan(const std::string& name = "counting") {
  PlanBuilder s(1, name);
  ActorId n = s.actor("n", 0, 0, BodyKind::state), add = s.actor("add"), out = s.actor("out", 1, 0, BodyKind::fetch);
  BlockId block = s.block(BlockKind::variable, 0, 4, "n", "f32[1]");
  s.start(n);
  RegisterId old = s.edge(n, {add}), fresh = s.edge(add, {out}, 1, 4);
  (void)old;
  s.plan.registers[fresh].block = block;  // the new version overwrites the old one
  s.done(out);
  s.call(add, "test.count", {in_block(block, View(DType::f32, {1}))}, {in_block(block, View(DType::f32, {1}))});
  s.plan.actors[out].binding = "n";
  s.plan.actors[out].bound = {in_register(fresh, View(DType::f32, {1}))};
  return s.plan;
}

TEST(Session, AForgottenVariableRemainsInPlansThatUseIt) {
  Session session({.poison = false}, kernels());
  const View one(DType::f32, {1});
  int plan = session.load(counting_plan());
  session.write_variable("n", first_device, one, HostArray::of<float>({1}, {10}));
  session.forget_variable("m");
  EXPECT_TRUE(session.has_variable("n", first_device));
  session.forget_variable("n");
  EXPECT_FALSE(session.has_variable("n", first_device));
  EXPECT_EQ(session.launch(plan).output("n").data<float>()[0], 11);
  int again = session.load(counting_plan());
  session.write_variable("n", first_device, one, HostArray::of<float>({1}, {50}));
  EXPECT_EQ(session.launch(again).output("n").data<float>()[0], 51);
  EXPECT_EQ(session.launch(plan).output("n").data<float>()[0], 12) << "it has its own bytes";
}

TEST(Session, LaunchesRunInTicketOrderAndStateIsKept) {
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
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  KernelTable table({test_row(
      "hold", [&gone](const CallSpec&) -> PreparedKernel { return [&gone](const KernelArgs&) { gone.wait(); }; })});
  Session session({.workers = 1}, table);
  PlanBuilder s;
  const ActorId a = s.actor("a");
  s.start(a), s.done(a), s.call(a, "test.hold", {}, {});
  const int plan = session.load(s.plan);
  session.wait_all_launches();  // returns at once
  Launch first = session.launch(plan), second = session.launch(plan);
  auto waits = std::async(std::launch::async, [&] { session.wait_all_launches(); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  EXPECT_FALSE(first.done());
  go.set_value();
  waits.get();
  EXPECT_TRUE(first.done() && second.done());
}

TEST(Session, TwoPlansShareAVariableButOnlyInOneLayout) {
  Session session({.poison = false}, kernels());
  int a = session.load(counting_plan("first")), b = session.load(counting_plan("second"));
  session.launch(a);
  session.launch(b);
  EXPECT_EQ(session.launch(a).output("n").data<float>()[0], 3);
  Plan other = counting_plan("third");
  for (Block& block : other.blocks)
    if (block.kind == BlockKind::variable) block.layout = "f32[1@data]";
  EXPECT_EQ(
      error_of([&] { session.load(other); }),
      "plan 'third': variable 'n' of device 0.0 is stored as f32[1] (4 bytes), but this plan requires f32[1@data] "
      "(4 bytes)");
  EXPECT_EQ(session.launch(b).output("n").data<float>()[0], 4) << "the refused plan has no effect";
}

TEST(Session, AFailedLoadLeavesNoVariableBehind) {
  Session session({.poison = false}, kernels());
  for (bool in_setup : {false, true}) {
    Plan plan = counting_plan("bad");
    plan.blocks.push_back({BlockKind::variable, DeviceId(0), 8, "m", "f32[2]"});
    Call missing;
    missing.kernel = in_setup ? "test.fail" : "test.missing";
    missing.attrs = {{"at", std::int64_t{1}}};
    if (in_setup) plan.setup.push_back(missing);  // prepared, but it throws when it runs
    else plan.actors[ActorId(1)].calls.push_back(missing);
    EXPECT_NE(error_of([&] { session.load(plan); }), "no error");
    EXPECT_FALSE(session.has_variable("n", first_device));
    EXPECT_FALSE(session.has_variable("m", first_device));
  }
  Plan other = counting_plan("good");  // so another layout is allowed
  for (Block& block : other.blocks)
    if (block.kind == BlockKind::variable) block.layout = "f32[1@data]";
  EXPECT_EQ(session.launch(session.load(other)).output("n").data<float>()[0], 1);
}

TEST(Session, AKernelWithoutAWorkspaceOfTheNeededSizeIsRefused) {
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

// Records every position that is read.
class NotingSource : public Source {
 public:
  TensorType type() const override { return {DType::f32, {4}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const TensorRef& out) const override {
    positions.push_back(position);
    for (int i = 0; i < 4; ++i) out.as<float>()[i] = static_cast<float>(position);
  }
  mutable std::vector<std::int64_t> positions;
};

TEST(Session, AnInputThatActsTwiceInALaunchReadsItsPositionAndTheNext) {
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
  auto source = std::make_shared<NotingSource>();
  std::vector<std::int64_t> due;
  for (std::int64_t position : {10, 20, 12}) {
    finish(session, session.launch(plan, {{"x", {source, position}}}));
    due.insert(due.end(), {position, position + 1});
    EXPECT_EQ(source->positions, due);
    EXPECT_EQ(session.read_variable("last", first_device, test_vector).data<float>()[0],
              static_cast<float>(position + 1));
  }
}

// Four acts in a launch: a batch of eight is read in two halves, then the next one; the first act copies to "sums", the
// others add, and the last act has one more call.
TEST(Session, CallsRunInTheirActsAndInputsReadTheirSlices) {
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
      for (std::int64_t i = 0; i < 4; ++i)  // rows i and i + 4 of two batches
        EXPECT_EQ(value.data<float>()[static_cast<std::size_t>(i)],
                  static_cast<float>(1000 + 200 * (2 * position + 1) + 4 * i + 8))
            << position;
    }
  }
}

TEST(Session, SetupRunsOnceWhenLoaded) {
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

TEST(Session, MessagesAndActsPerLaunchFollowFromPeriodsConsumersAndInputs) {
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

TEST(Session, RandomGraphsComputeTheSameOnOneWorkerAndOnTwo) {
  const char* given = std::getenv("KAREZ_SEED");
  unsigned first = given ? static_cast<unsigned>(std::atoi(given)) : 1;
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
          const HostArray got = launch.output(name);
          for (float y : got.data<float>()) ASSERT_EQ(y, value) << "KAREZ_SEED=" << seed << ", output " << name;
        }
      messages += 3 * messages_per_launch(graph.s.plan);
      ASSERT_EQ(session.counters().messages, messages) << "KAREZ_SEED=" << seed;
    }
  }
}

// A slot that will be filled holds poison, whatever it held before; between the acts that fill it together it holds the
// values that they wrote.
TEST(Session, EverySlotIsPoisonedWhenItsFirstActBeginsAndNotLater) {
  std::vector<std::uint32_t> seen;
  KernelTable table({test_row("see", [&](const CallSpec&) -> PreparedKernel {
    return [&](const KernelArgs& args) {
      seen.push_back(*test_data<std::uint32_t>(args.out[0]));
      *test_data<std::uint32_t>(args.out[0]) = static_cast<std::uint32_t>(seen.size());
    };
  })});
  std::uint32_t bad = 0;
  device::poison(reinterpret_cast<std::byte*>(&bad), 4);
  for (int period : {1, 2}) {
    seen.clear();
    Session session({.workers = 1, .poison = true}, table);
    PlanBuilder s;
    ActorId make = s.actor("make"), use = s.actor("use");
    s.start(make, 4 * period);
    RegisterId y = s.edge(make, {use}, 2, 4, period);
    s.done(use, 4);
    s.plan.actors[make].priority = 1;  // both slots are filled before the first is read
    s.plan.actors[use].priority = 2;
    s.call(make, "test.see", {}, {in_register(y, View(DType::f32, {1}))});
    session.launch(session.load(s.plan)).wait();
    if (period == 1) { EXPECT_EQ(seen, (std::vector<std::uint32_t>{bad, bad, bad, bad})); }
    if (period == 2) { EXPECT_EQ(seen, (std::vector<std::uint32_t>{bad, 1, bad, 3, bad, 5, bad, 7})); }
  }
}

TEST(Session, AFastProducerKeepsMemoryAtSlotsTimesSize) {
  constexpr int slots = 3;
  static std::atomic<int> made{0}, used{0}, most{0};
  std::vector<KernelRow> rows;
  rows.push_back(test_row("make", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) {
      int ahead = ++made - used;
      if (ahead > most) most = ahead;
      test_data(args.out[0])[0] = static_cast<float>(made.load() % 1000);
    };
  }));
  rows.push_back(test_row("use", [](const CallSpec&) -> PreparedKernel {
    return [piece = std::make_shared<int>(0)](const KernelArgs& args) {
      for (int i = 0; i < 300; ++i) asm volatile("");  // ten times the work of the producer
      ++*piece;
      require(test_data(args.in[0])[0] == static_cast<float>(*piece % 1000), "piece ", *piece,
              " is not the piece that was produced");
      ++used;
    };
  }));
  KernelTable table(std::move(rows));
  for (int workers : {1, 2}) {
    const int pieces = workers == 1 ? 100000 : 20000;  // a wake-up per piece takes long if cores are shared
    made = used = most = 0;
    PlanBuilder s;
    ActorId a = s.actor("make"), b = s.actor("use", 1);
    s.start(a, pieces);
    RegisterId ab = s.edge(a, {b}, slots, 1024);
    s.done(b, pieces);
    s.call(a, "test.make", {}, {in_register(ab, View(DType::f32, {256}))});
    s.call(b, "test.use", {in_register(ab, View(DType::f32, {256}))}, {});
    Session session({.workers = workers}, table);
    finish(session, session.launch(session.load(s.plan)));
    EXPECT_EQ(used, pieces);
    EXPECT_LE(most, slots) << "at most this many pieces at once";
    EXPECT_EQ(session.counters().peak_bytes.at("0.0"), slots * 1024);
  }
}

TEST(Session, WorkersAreNeverMoreThanCores) {
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

TEST(Session, NewSlotsAndScratchArePoisonedIfRequested) {
  static float seen[2];
  std::vector<KernelRow> rows;
  rows.push_back(test_row("peek", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) {
      seen[0] = test_data(args.out[0])[3];
      seen[1] = test_data(args.out[1])[0];
      for (int i = 0; i < 4; ++i) test_data(args.out[0])[i] = test_data(args.out[1])[i] = 1;
    };
  }));
  KernelTable table(std::move(rows));
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  s.start(a);
  RegisterId ab = s.edge(a, {b}, 1, 16);
  BlockId scratch = s.block(BlockKind::scratch, 0, 16);
  s.done(b);
  s.call(a, "test.peek", {}, {in_register(ab, test_vector), in_block(scratch, test_vector)});
  Session session({.poison = true}, table);
  int plan = session.load(s.plan);
  for (int i = 0; i < 3; ++i) {
    seen[0] = seen[1] = 0;
    finish(session, session.launch(plan));
    EXPECT_TRUE(std::isnan(seen[0])) << "the slot still holds the piece before, launch " << i;
    EXPECT_TRUE(std::isnan(seen[1])) << "scratch still holds the values of the act before, launch " << i;
  }
}

TEST(Session, ScratchIsPoisonedAfterItsLastReaderAndIfItIsNeverRead) {
  static const float *unread, *read;
  static float seen[3];
  std::vector<KernelRow> rows;
  rows.push_back(test_row("make", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) {
      for (int i = 0; i < 4; ++i) test_data(args.out[0])[i] = test_data(args.out[1])[i] = 1;
      read = test_data(args.out[0]), unread = test_data(args.out[1]);
    };
  }));
  rows.push_back(test_row("look", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs&) { seen[0] = read[0], seen[1] = unread[0]; };
  }));
  rows.push_back(
      test_row("late", [](const CallSpec&) -> PreparedKernel { return [](const KernelArgs&) { seen[2] = read[0]; }; }));
  KernelTable table(std::move(rows));
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  BlockId scratch = s.block(BlockKind::scratch, 0, 128);
  s.call(a, "test.make", {}, {in_block(scratch, test_vector), in_block(scratch, test_vector, 64)});
  s.call(a, "test.look", {in_block(scratch, test_vector)}, {});
  s.call(a, "test.late", {}, {});
  Session session({.poison = true}, table);
  finish(session, session.launch(session.load(s.plan)));
  EXPECT_EQ(seen[0], 1);
  EXPECT_TRUE(std::isnan(seen[1])) << "it is never read";
  EXPECT_TRUE(std::isnan(seen[2])) << "its last reader has run";
}

TEST(Session, ErrorsNameBadFeedsAndPlans) {
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
  EXPECT_NE(error.find("test.relu"), std::string::npos) << "lists existing kernels: " << error;
  bad = parse_plan(matmul_relu);
  bad.registers[RegisterId(2)].slots = 0;
  EXPECT_NE(error_of([&] { session.load(bad); }).find("has 0 slots"), std::string::npos);
}

}  // namespace
}  // namespace karez::runtime
