// Tests that the source reader reads slow sources during the previous launch, and that the worker reads fast sources.
#include "karez/runtime/actor/source_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

const View scalar(DType::f32, {1});

class SlowSource : public Source {
 public:
  explicit SlowSource(std::chrono::microseconds duration) : duration_(duration) {}
  TensorType type() const override { return {DType::f32, {1}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const TensorRef& out) const override {
    const int works_before = works == nullptr ? 0 : works->load();
    std::this_thread::sleep_for(duration_);
    overlaps += works != nullptr && (works_before % 2 == 1 || works->load() != works_before);
    if (position == throws_at) throw Error(ErrorKind::data, "the source is exhausted");
    threads.insert(std::this_thread::get_id());
    out.as<float>()[0] = static_cast<float>(position);
  }
  std::int64_t throws_at = -1;
  const std::atomic<int>* works = nullptr;    // counts begins and ends of the kernel; odd while it runs
  mutable std::atomic<int> overlaps = 0;      // reads during which the kernel ran
  mutable std::set<std::thread::id> threads;  // needs no lock, because the reads of an input are sequential

 private:
  std::chrono::microseconds duration_;
};

// x -> an act of "test.busy" -> y
Plan reading_plan() {
  PlanBuilder s(1, "reading");
  ActorId in = s.actor("in", 0, 0, BodyKind::input), work = s.actor("work", 0),
          out = s.actor("out", 0, 0, BodyKind::fetch);
  s.start(in);
  RegisterId x = s.edge(in, {work}, 2, 4), y = s.edge(work, {out}, 1, 4);
  s.done(out);
  Actor& input = s.plan.actors[in];
  input.binding = "x";
  input.bound = {in_register(x, scalar)};
  input.slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{1}}}};
  s.call(work, "test.busy", {in_register(x, scalar)}, {in_register(y, scalar)});
  s.plan.actors[out].binding = "y";
  s.plan.actors[out].bound = {in_register(y, scalar)};
  return s.plan;
}

std::vector<KernelRow> busy_kernels(std::chrono::microseconds duration, std::atomic<int>& works) {
  auto rows = test_kernels();
  rows.push_back(test_row("busy", [duration, &works](const CallSpec&) -> PreparedKernel {
    return [duration, &works](const KernelArgs& args) {
      ++works;
      std::this_thread::sleep_for(duration);
      test_data(args.out[0])[0] = test_data(args.in[0])[0] + 1;
      ++works;
    };
  }));
  return rows;
}

TEST(SourceReader, ASlowSourceIsReadDuringThePreviousLaunch) {
  using std::chrono::microseconds;
  std::atomic<int> works = 0;
  KernelTable table(busy_kernels(microseconds(10'000), works));
  Session session({.workers = 1}, table);
  int plan = session.load(reading_plan());
  auto slow = std::make_shared<SlowSource>(microseconds(8'000));
  slow->works = &works;
  constexpr int steps = 20;
  auto run = [&](std::int64_t from) {
    std::vector<Launch> launches;
    for (int i = 0; i < steps; ++i) launches.push_back(session.launch(plan, {{"x", {slow, from + i}}}));
    for (int i = 0; i < steps; ++i)
      EXPECT_EQ(launches[static_cast<std::size_t>(i)].output("y").data<float>()[0], static_cast<float>(from + i + 1));
  };
  run(0);
  run(100);
  EXPECT_GE(slow->overlaps, steps) << "too few of " << 2 * steps << " reads overlapped with the kernel";
  EXPECT_EQ(slow->threads.size(), 2u) << "expected the first read on the worker and the others on the source reader";
}

TEST(SourceReader, AFastSourceIsReadOnTheWorkerAndAnErrorOfASlowSourceFailsTheLaunch) {
  using std::chrono::microseconds;
  std::atomic<int> works = 0;
  KernelTable table(busy_kernels(microseconds(0), works));
  Session session({.workers = 1}, table);
  int plan = session.load(reading_plan());
  Feed fast{array_source(HostArray::of<float>({1}, {5})), 0};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(session.launch(plan, {{"x", fast}}).output("y").data<float>()[0], 6);
  auto slow = std::make_shared<SlowSource>(microseconds(1000));
  slow->throws_at = 2;
  for (std::int64_t i = 0; i < 2; ++i) session.launch(plan, {{"x", {slow, i}}}).wait();
  EXPECT_EQ(error_of([&] {
              session.launch(plan, {{"x", {slow, 2}}}).wait();
            }),
            "in at sketch.cc:1: the source is exhausted [launch 23, actor 'in', device 0.0]");
}

}  // namespace
}  // namespace karez::runtime
