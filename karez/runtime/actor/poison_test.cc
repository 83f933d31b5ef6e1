// Tests that dead memory is poisoned: slots before they are filled, and scratch after its last reader.
#include "karez/runtime/actor/poison.h"

#include <gtest/gtest.h>

#include <cmath>

#include "karez/device/memory.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

// A slot is poisoned before the first act that fills it. If several acts fill it together, it is not poisoned again
// between them.
TEST(Poison, ASlotIsPoisonedBeforeTheFirstActThatFillsItAndNotBetweenActs) {
  std::vector<std::uint32_t> observed;
  KernelTable table({test_row("see", [&](const CallSpec&) -> PreparedKernel {
    return [&](const KernelArgs& args) {
      observed.push_back(*test_data<std::uint32_t>(args.out[0]));
      *test_data<std::uint32_t>(args.out[0]) = static_cast<std::uint32_t>(observed.size());
    };
  })});
  std::uint32_t poisoned_value = 0;
  device::poison(reinterpret_cast<std::byte*>(&poisoned_value), 4);
  for (int period : {1, 2}) {
    observed.clear();
    Session session({.workers = 1, .poison = true}, table);
    PlanBuilder s;
    ActorId producer = s.actor("make"), consumer = s.actor("use");
    s.start(producer, 4 * period);
    RegisterId y = s.edge(producer, {consumer}, 2, 4, period);
    s.done(consumer, 4);
    s.plan.actors[producer].priority = 1;  // both slots are filled before the first is read
    s.plan.actors[consumer].priority = 2;
    s.call(producer, "test.see", {}, {in_register(y, View(DType::f32, {1}))});
    session.launch(session.load(s.plan)).wait();
    if (period == 1) {
      EXPECT_EQ(observed, (std::vector<std::uint32_t>{poisoned_value, poisoned_value, poisoned_value, poisoned_value}));
    }
    if (period == 2) {
      EXPECT_EQ(observed, (std::vector<std::uint32_t>{poisoned_value, 1, poisoned_value, 3, poisoned_value, 5,
                                                      poisoned_value, 7}));
    }
  }
}

TEST(Poison, NewSlotsAndScratchArePoisonedIfRequested) {
  static float observed[2];
  std::vector<KernelRow> rows;
  rows.push_back(test_row("peek", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) {
      observed[0] = test_data(args.out[0])[3];
      observed[1] = test_data(args.out[1])[0];
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
    observed[0] = observed[1] = 0;
    finish(session, session.launch(plan));
    EXPECT_TRUE(std::isnan(observed[0])) << "the slot still holds the previous piece, launch " << i;
    EXPECT_TRUE(std::isnan(observed[1])) << "scratch still holds the values of the previous act, launch " << i;
  }
}

TEST(Poison, ScratchIsPoisonedAfterItsLastReaderOrAfterItsWriterIfItIsNeverRead) {
  static const float *unread, *read;
  static float observed[3];
  std::vector<KernelRow> rows;
  rows.push_back(test_row("make", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) {
      for (int i = 0; i < 4; ++i) test_data(args.out[0])[i] = test_data(args.out[1])[i] = 1;
      read = test_data(args.out[0]), unread = test_data(args.out[1]);
    };
  }));
  rows.push_back(test_row("look", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs&) { observed[0] = read[0], observed[1] = unread[0]; };
  }));
  rows.push_back(test_row(
      "late", [](const CallSpec&) -> PreparedKernel { return [](const KernelArgs&) { observed[2] = read[0]; }; }));
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
  EXPECT_EQ(observed[0], 1);
  EXPECT_TRUE(std::isnan(observed[1])) << "scratch that is never read must be poisoned after its writer";
  EXPECT_TRUE(std::isnan(observed[2])) << "scratch must be poisoned after its last reader";
}

// Memory that another call writes before the producer fills the slot is poisoned right before the producer's call.
TEST(Poison, ASlotIsPoisonedBeforeTheFirstCallThatUsesIt) {
  static float* slot;
  static float observed;
  slot = nullptr;
  std::vector<KernelRow> rows;
  rows.push_back(test_row("before", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs&) {
      if (slot != nullptr) *slot = 1;
    };
  }));
  rows.push_back(test_row("fill", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) {
      slot = test_data(args.out[0]);
      observed = *slot;
      *slot = 2;
    };
  }));
  KernelTable table(std::move(rows));
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  s.start(a);
  RegisterId ab = s.edge(a, {b}, 1, 16);
  s.done(b);
  s.call(a, "test.before", {}, {});
  s.call(a, "test.fill", {}, {in_register(ab, test_vector)});
  Session session({.poison = true}, table);
  const int plan = session.load(s.plan);
  for (int i = 0; i < 2; ++i) {
    observed = 0;
    finish(session, session.launch(plan));
    EXPECT_TRUE(std::isnan(observed)) << "launch " << i;
  }
}

// A call writes all or half of the scratch between two readers. Only if it writes everything, the first value is dead
// after its reader.
TEST(Poison, ScratchThatIsWrittenAgainIsPoisonedBetweenItsReaderAndItsNextWriter) {
  static const float* scratch;
  static float observed[2];
  std::vector<KernelRow> rows;
  rows.push_back(test_row("write", [](const CallSpec& c) -> PreparedKernel {
    return [n = c.out[0].count()](const KernelArgs& args) {
      for (std::int64_t i = 0; i < n; ++i) test_data(args.out[0])[i] = 1;
    };
  }));
  rows.push_back(test_row("read", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) { scratch = test_data(args.in[0]); };
  }));
  rows.push_back(test_row("between", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs&) { observed[0] = scratch[0], observed[1] = scratch[3]; };
  }));
  KernelTable table(std::move(rows));
  for (std::int64_t written : {4, 2}) {
    PlanBuilder s;
    ActorId a = s.actor("a");
    s.start(a);
    s.done(a);
    const BlockId block = s.block(BlockKind::scratch, 0, 16);
    s.call(a, "test.write", {}, {in_block(block, test_vector)});
    s.call(a, "test.read", {in_block(block, test_vector)}, {});
    s.call(a, "test.between", {}, {});
    s.call(a, "test.write", {}, {in_block(block, View(DType::f32, {written}))});
    s.call(a, "test.read", {in_block(block, test_vector)}, {});
    Session session({.poison = true}, table);
    finish(session, session.launch(session.load(s.plan)));
    EXPECT_EQ(std::isnan(observed[0]), written == 4);
    EXPECT_EQ(std::isnan(observed[1]), written == 4) << "the last two elements are read again";
  }
}

}  // namespace
}  // namespace karez::runtime
