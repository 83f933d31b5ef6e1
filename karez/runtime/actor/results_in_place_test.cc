// Tests of results that kernels compute in the memory that the user holds: their addresses, several launches, other
// readers, and launches that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

// x -> add -> out, where the result y is external, and a second reader of y that adds another bias and is fetched as z.
// The kernel `look` records the address of its result.
struct ExternalPlan {
  std::vector<std::byte*> seen;
  KernelTable kernels = [this] {
    std::vector<KernelRow> rows = test_kernels();
    rows.push_back(test_row("look", [this](const CallSpec& c) -> PreparedKernel {
      return [this, view = c.out[0]](const KernelArgs& args) {
        seen.push_back(args.out[0]);
        for (std::int64_t i = 0; i < view.count(); ++i) {
          if (test_data(args.in[0])[i] < 0) throw Error("look: negative");
          test_data(args.out[0])[i] = test_data(args.in[0])[i] + 1;
        }
      };
    }));
    return KernelTable(std::move(rows));
  }();
  PlanBuilder s;
  RegisterId x, y, z;

  explicit ExternalPlan(int slots, int workers = 1) {
    const ActorId in = s.actor("in", 0, 0, BodyKind::input), add = s.actor("add"),
                  out = s.actor("out", workers - 1, 0, BodyKind::fetch), more = s.actor("more", workers - 1),
                  last = s.actor("last", 0, 0, BodyKind::fetch), copy = s.actor("copy", 0, 0, BodyKind::fetch);
    s.start(in);
    x = s.edge(in, {add}, 2, 16);
    y = s.edge(add, {out, more, copy}, slots, 16);
    z = s.edge(more, {last}, 2, 16);
    for (ActorId fetch : {out, last, copy}) s.done(fetch);
    s.call(add, "test.look", {in_register(x, test_vector)}, {in_register(y, test_vector)});
    s.call(more, "test.sum", {in_register(y, test_vector)}, {in_register(z, test_vector)}, {{"bias", 10.0}});
    bind(in, "x", x), bind(out, "y", y), bind(last, "z", z), bind(copy, "copy", y);
    s.plan.actors[in].slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
    for (RegisterId reg : {y, z}) {
      Register& r = s.plan.registers[reg];
      r.block = s.block(BlockKind::external, 0, 16, reg == y ? "y" : "z"), r.stride = 0;
    }
  }
  void bind(ActorId actor, std::string name, RegisterId reg) {
    s.plan.actors[actor].binding = std::move(name), s.plan.actors[actor].bound = {in_register(reg, test_vector)};
  }
};

Feeds feeds(float first) {
  HostArray x(TensorType{DType::f32, {4}});
  for (std::size_t i = 0; i < 4; ++i) x.data<float>()[i] = i == 0 ? first : static_cast<float>(i + 1);
  return {{"x", {data::array_source(x), 0}}};
}

std::vector<float> to_vector(const Result& result) {
  const HostArray array = result.read();
  return {array.data<float>().begin(), array.data<float>().end()};
}

TEST(ResultsInPlace, EachLaunchComputesItsOwnResults) {
  for (int workers : {1, 2})
    for (int slots : {1, 3})
      for (bool poison : {false, true}) {
        ExternalPlan p(slots, workers);
        Session session({.workers = workers, .poison = poison}, p.kernels);
        const int plan = session.load(p.s.plan);
        std::vector<Launch> launches;
        for (float i = 0; i < 20; ++i) launches.push_back(session.launch(plan, feeds(i)));
        for (std::size_t i = 0; i < launches.size(); ++i) {
          const float first = static_cast<float>(i);
          EXPECT_THAT(to_vector(launches[i].result("y")), ::testing::ElementsAre(first + 1, 3, 4, 5));
          EXPECT_THAT(to_vector(launches[i].result("copy")), ::testing::ElementsAre(first + 1, 3, 4, 5));
          EXPECT_THAT(to_vector(launches[i].result("z")), ::testing::ElementsAre(first + 11, 13, 14, 15));
        }
        std::sort(p.seen.begin(), p.seen.end());  // all results are alive
        EXPECT_EQ(std::unique(p.seen.begin(), p.seen.end()) - p.seen.begin(), 20);
      }
}

TEST(ResultsInPlace, AFailedLaunchLeavesOtherResultsAsTheyAre) {
  ExternalPlan p(1);
  Session session({.workers = 1}, p.kernels);
  const int plan = session.load(p.s.plan);
  auto launch = [&](float first) { return session.launch(plan, feeds(first)); };
  const Launch before = launch(5);
  EXPECT_NE(error_of([&] { launch(-1).wait(); }).find("look: negative"), std::string::npos);
  const Launch after = launch(7);
  EXPECT_THAT(to_vector(before.result("z")), ::testing::ElementsAre(16, 13, 14, 15));
  EXPECT_THAT(to_vector(after.result("z")), ::testing::ElementsAre(18, 13, 14, 15));
}

}  // namespace
}  // namespace karez::runtime
