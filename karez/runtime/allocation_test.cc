// Tests that worker threads allocate no memory in launches 10 to 30. All allocations of threads that are marked as
// workers are counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "karez/comm/collective/collective.h"
#include "karez/data/array_source.h"
#include "karez/runtime/actor/reduce.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_malloc.h"
#include "karez/runtime/test_plans.h"

namespace {
thread_local bool is_worker = false;
std::atomic<long> worker_allocations{0};
}  // namespace
void count_allocation(std::size_t, std::size_t) {
  if (is_worker) worker_allocations.fetch_add(1, std::memory_order_relaxed);
}

namespace karez::runtime {
namespace {

// Two devices on two workers. Each has a variable and the chain input -> first -> all_reduce -> last -> fetch. The
// kernel of `first` marks its thread as a worker.
Plan plan_with_everything() {
  PlanBuilder s(2, "everything");
  s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]}, 64, {"x"}});
  View view(DType::f32, {100});
  for (int d = 0; d < 2; ++d) {
    ActorId in = s.actor(cat("in.", d), d, d, BodyKind::input), first = s.actor(cat("first.", d), d, d),
            all = s.actor(cat("all.", d), d, d, BodyKind::collective);
    ActorId state = s.actor(cat("state.", d), d, d, BodyKind::state), last = s.actor(cat("last.", d), 1 - d, d),
            fetch = s.actor(cat("fetch.", d), d, d, BodyKind::fetch);
    BlockId variable = s.block(BlockKind::variable, d, 400, "v", "f32[100]");
    s.start(in);
    s.start(state);
    RegisterId x = s.edge(in, {first}, 2, 400), y = s.edge(first, {all, last}, 2, 400), z = s.edge(all, {last}, 3, 400),
               out = s.edge(last, {fetch}, 2, 400);
    s.edge(state, {last});
    s.done(fetch);
    s.plan.actors[in].binding = "x";
    s.plan.actors[in].bound = {in_register(x, view)};
    s.plan.actors[in].slices = {Attrs{{"begin", Ints{100 * d}}, {"shape", Ints{200}}}};
    s.call(first, "test.mark", {in_register(x, view)}, {in_register(y, view)});
    Collective c{CommunicatorId(0),
                 CollectiveKind::all_reduce,
                 Reduce::sum,
                 {0},
                 in_register(y, view),
                 in_register(z, view),
                 {},
                 {},
                 {},
                 "all_reduce",
                 CollectiveAlgorithm::ring};
    s.plan.actors[all].collective = c;
    s.call(last, "test.sum", {in_register(y, view), in_register(z, view), in_block(variable, view)},
           {in_register(out, view)});
    s.call(last, "test.sum", {in_register(out, view)}, {in_block(variable, view)});
    s.plan.actors[fetch].binding = cat("y", d);
    s.plan.actors[fetch].bound = {in_register(out, view)};
  }
  return s.plan;
}

// Computes y = x + 1 on two devices, each of which has half of x and half of y.
Plan chain() {
  PlanBuilder s(2, "chain");
  View half(DType::f32, {100});
  for (int d = 0; d < 2; ++d) {
    ActorId in = s.actor(cat("in.", d), d, d, BodyKind::input), add = s.actor(cat("add.", d), d, d),
            out = s.actor(cat("out.", d), d, d, BodyKind::fetch);
    s.start(in);
    RegisterId x = s.edge(in, {add}, 2, 400), y = s.edge(add, {out}, 2, 400);
    s.done(out);
    s.call(add, "test.sum", {in_register(x, half)}, {in_register(y, half)}, {{"bias", 1.0}});
    s.plan.actors[in].binding = "x", s.plan.actors[out].binding = "y";
    s.plan.actors[in].bound = {in_register(x, half)}, s.plan.actors[out].bound = {in_register(y, half)};
    for (ActorId a : {in, out}) s.plan.actors[a].slices = {Attrs{{"begin", Ints{100 * d}}, {"shape", Ints{200}}}};
  }
  return s.plan;
}

TEST(Allocation, WorkersAllocateNothingInLaunchesTenToThirty) {
  static std::atomic<int> marked{0};
  auto rows = test_kernels();
  rows.push_back(test_row("mark", [](const CallSpec& c) -> PreparedKernel {
    return [n = c.out[0].count()](const KernelArgs& args) {
      if (!is_worker) ++marked;
      is_worker = true;
      for (std::int64_t i = 0; i < n; ++i) test_data(args.out[0])[i] = test_data(args.in[0])[i];
    };
  }));
  rows.push_back(test_row(
      "allocate", [](const CallSpec&) -> PreparedKernel { return [](const KernelArgs&) { allocate_once(); }; }));
  KernelTable table(std::move(rows));
  for (int workers : {1, 2}) {
    marked = 0;
    Session session({.workers = workers}, table);
    int plan = session.load(plan_with_everything());
    Feed feed{array_source(HostArray::of<float>({200}, std::vector<float>(200, 0.5f))), 0};
    for (int launch = 1; launch <= 30; ++launch) {
      if (launch == 10) worker_allocations = 0;
      session.launch(plan, {{"x", feed}}).wait();
    }
    EXPECT_EQ(worker_allocations, 0) << "with " << workers << " workers";
    const int chained = session.load(chain());
    Result y = session.launch(chained, {{"x", feed}}).result("y");
    for (int launch = 1; launch <= 30; ++launch) {  // without waiting; unused results are freed
      if (launch == 10) worker_allocations = 0;
      y = session.launch(chained, {}, {{"x", y}}).result("y");
    }
    y.wait();
    EXPECT_EQ(worker_allocations, 0) << "with " << workers << " workers, if results are inputs of later launches";
    EXPECT_EQ(marked, session.counters().workers) << "every worker must be marked";
    PlanBuilder s;
    ActorId a = s.actor("a");
    s.start(a);
    s.done(a);
    s.call(a, "test.allocate", {}, {});
    int allocating = session.load(s.plan);
    worker_allocations = 0;
    session.launch(allocating).wait();
    EXPECT_GE(worker_allocations, 1) << "the hook must detect an allocation";
  }
}

}  // namespace
}  // namespace karez::runtime
