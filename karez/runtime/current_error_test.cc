// Tests that an exception of any type makes the launch or the load fail with the text of the exception.
#include "karez/runtime/current_error.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

// Throws objects that are not a std::exception.
class ThrowingSource : public Source {
 public:
  TensorType type() const override { return {DType::f32, {4}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const TensorRef&) const override {
    if (position == 0) throw 42;
    throw std::string("the tape is damaged");
  }
};

TEST(CurrentError, AnyExceptionOfASourceFailsTheLaunchWithItsText) {
  for (int workers : {1, 2})
    for (auto [position, text] :
         {std::pair{0, "an object was thrown that is not a std::exception"}, std::pair{1, "the tape is damaged"}}) {
      RandomGraph graph(3, workers);
      KernelTable table(test_kernels());
      Session session({.workers = workers}, table);
      int plan = session.load(graph.s.plan);
      std::string error = error_of([&] {
        session.launch(plan, {{"x", {std::make_shared<ThrowingSource>(), position}}}).wait();
      });
      EXPECT_EQ(error.find(cat("node.0 at sketch.cc:1: ", text, " [launch 1, actor 'node.")), 0u) << error;
    }
}

TEST(CurrentError, AnyExceptionOfAKernelFailsTheLaunchOrTheLoadWithItsText) {
  std::vector<KernelRow> rows = test_kernels();
  rows.push_back(
      test_row("odd", [](const CallSpec&) -> PreparedKernel { return [](const KernelArgs&) { throw "odd"; }; }));
  rows.push_back(test_row("unready", [](const CallSpec&) -> PreparedKernel { throw 7; }));
  KernelTable table(std::move(rows));
  Session session({}, table);
  session.add({"test.late", [](const KernelArgs&, const Completion& done) { done(std::make_exception_ptr(7)); }});
  for (auto [kernel, text] :
       {std::pair{"test.odd", "odd"}, std::pair{"test.late", "an object was thrown that is not a std::exception"}}) {
    PlanBuilder s;
    ActorId a = s.actor("a");
    s.start(a);
    s.done(a);
    s.call(a, kernel, {}, {});
    Launch launch = session.launch(session.load(s.plan));
    EXPECT_EQ(error_of([&] { launch.wait(); }),
              cat(kernel, " at sketch.cc:2: ", text, " [launch ", launch.ticket(), ", actor 'a', device 0.0]"));
    session.reload();
  }
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  s.call(a, "test.unready", {}, {});
  const std::string error_suffix = ": an object was thrown that is not a std::exception";
  EXPECT_EQ(error_of([&] { session.load(s.plan); }), "plan 'sketch', test.unready at sketch.cc:2" + error_suffix);
  std::swap(s.plan.setup, s.plan.actors[ActorId(0)].calls);
  EXPECT_EQ(error_of([&] { session.load(s.plan); }), "plan 'sketch', test.unready at sketch.cc:2" + error_suffix);
  s.plan.setup[0].kernel = "test.odd";
  EXPECT_EQ(error_of([&] { session.load(s.plan); }), "plan 'sketch', set-up, test.unready at sketch.cc:2: odd");
}

}  // namespace
}  // namespace karez::runtime
