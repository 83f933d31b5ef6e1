// Tests of gradients in programs that update parameters: a gradient is taken at the version that the loss read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string current_line(SourceLine line = SourceLine::current()) { return print(line); }

Parameter make_parameter(const char* name, double first) { return {name, {DType::f32, {2}}, constant_init(first)}; }

// Returns the result of a function of x = (1, 2).
std::vector<float> result(auto&& body) {
  World world;
  return list(compile(world.mesh(), body)(HostArray::of<float>({2}, {1, 2})).value().read());
}

TEST(Versions, AGradientAfterAnUpdateIsTakenAtTheVersionThatTheLossRead) {
  Parameter w = make_parameter("w", 3);
  EXPECT_THAT(result([&](Tensor x) {  // d sum(x * w^2) / dw = 2 * x * w, with the old w
                Tensor loss = sum(x * w * w);
                optim::SGD({w}, {.lr = 1}).step({full({2}, 1)});
                return grad(loss, {w})[0];
              }),
              ElementsAre(6, 12));
  EXPECT_THAT(result([&](Tensor x) {  // with the new w, 3 - 1
                optim::SGD({w}, {.lr = 1}).step({full({2}, 1)});
                return grad(sum(x * w * w), {w})[0];
              }),
              ElementsAre(4, 8));
}

TEST(Versions, TwoStepsInOneFunctionGiveTheResultsOfTwoCallsWithOneStep) {
  auto trained = [](int steps, int calls) {
    World world;
    Parameter w = make_parameter("w", 3), m = make_parameter("m", 0.5);
    optim::SGD sgd({w, m}, {.lr = 0.125, .momentum = 0.5});
    auto f = compile(world.mesh(), [&](Tensor x) {
      for (int i = 0; i < steps; ++i) sgd.step(grad(sum(x * w * w * m), {w, m}));
    });
    for (int i = 0; i < calls; ++i) f(HostArray::of<float>({2}, {1, 2})).wait();
    auto out = list(world.read(w));
    for (float v : list(world.read(m))) out.push_back(v);
    return out;
  };
  EXPECT_EQ(trained(2, 1), trained(1, 2));
  EXPECT_EQ(trained(3, 2), trained(1, 6));
  EXPECT_NE(trained(2, 1), trained(1, 1));
}

TEST(Versions, ALossThatReadTwoVersionsIsAnErrorWithBothLines) {
  World world;
  Parameter w = make_parameter("w", 3), other = make_parameter("other", 1);
  std::string line_before, line_after, line_of_grad;
  auto f = compile(world.mesh(), [&](Tensor x) {
    Tensor a = (line_before = current_line(), x * w);
    optim::SGD({w}, {}).step({full({2}, 1)});
    Tensor b = (line_after = current_line(), x * w);
    Tensor loss = sum(a + b);
    EXPECT_EQ(grad(loss, {other})[0].shape(), Shape{2}) << "a parameter with a single version must have a gradient";
    return (line_of_grad = current_line(), grad(loss, {w})[0]);
  });
  std::string error = error_of([&] {
    f(HostArray::of<float>({2}, {1, 2}));
  });  // the call records the lines, so it precedes the comparison
  EXPECT_THAT(error,
              AllOf(HasSubstr("the loss reads two versions of parameter 'w': an older one in mul at " + line_before),
                    HasSubstr("and the result of an update in mul at " + line_after), HasSubstr("at " + line_of_grad)));
}

TEST(Versions, AReadThroughStopGradientDoesNotCount) {
  Parameter w = make_parameter("w", 3);
  EXPECT_THAT(result([&](Tensor x) {  // d sum(x * old * new) / d new = x * old
                Tensor old = stop_gradient(w);
                optim::SGD({w}, {.lr = 1}).step({full({2}, 1)});
                return grad(sum(x * old * w), {w})[0];
              }),
              ElementsAre(3, 6));
}

TEST(Versions, ParametersThatTheLossDoesNotDependOnHaveZeroGradients) {
  Parameter w = make_parameter("w", 3), unread = make_parameter("unread", 1), updated = make_parameter("updated", 1);
  EXPECT_THAT(result([&](Tensor x) {
                optim::SGD({updated}, {}).step({full({2}, 1)});
                auto grads = grad(sum(x * w), {unread, updated, w});
                return concat({grads[0], grads[1], grads[2]});
              }),
              ElementsAre(0, 0, 0, 0, 1, 2));
}

// The loss for b reads a, and a was updated by the gradient of a loss that read b.
TEST(Versions, GradientsStopAtAnOptimisersStep) {
  Parameter a = make_parameter("a", 2), b = make_parameter("b", 5);
  EXPECT_THAT(result([&](Tensor x) {
                optim::SGD({a}, {.lr = 0.125}).step(grad(sum(x * a * b), {a}));  // a - x * b / 8
                return grad(sum(a * b), {b})[0];                                 // equals the new a
              }),
              ElementsAre(2 - 5.0f / 8, 2 - 10.0f / 8));
  EXPECT_THAT(result([&](Tensor x) {  // The loss depends on the old b through the step of a; this is not a second
                                      // version of b, since gradients stop at the step.
                optim::SGD first({a}, {.lr = 0.125}), second({b}, {.lr = 1});
                first.step(grad(sum(x * a * b), {a}));
                second.step({full({2}, 1)});
                return grad(sum(a * b), {b})[0];
              }),
              ElementsAre(2 - 5.0f / 8, 2 - 10.0f / 8));
}

// The loss reads the old version of w through `twice`; it does not read the new version.
TEST(Versions, AValueThatBecomesAVersionCountsOnlyWhenItIsRead) {
  Parameter w = make_parameter("w", 3);
  EXPECT_THAT(result([&](Tensor x) {
                Tensor twice = w * 2;
                Trace::current().update(w, twice.id);
                return grad(sum(x * twice), {w})[0];
              }),
              ElementsAre(2, 4));
}

}  // namespace
}  // namespace karez
