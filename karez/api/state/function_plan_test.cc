// Tests of planning without a launch, of the memory limit of plans, and of the search for the op that produced NaN.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {

using ::testing::HasSubstr;

struct Net : nn::Module {
  nn::Linear fc1{*this, "fc1", 8, 16}, fc2{*this, "fc2", 16, 4};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};

HostArray ones(Shape shape) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  for (float& x : out.data<float>()) x = 1;
  return out;
}

TEST(Planned, AFunctionCanReportItsPlanBeforeTheFirstCall) {
  World world({.devices = 2});
  Net net;
  int traces = 0;
  auto model = compile(world.mesh("data=2"), [&](Tensor x) {
    ++traces;
    return net(x);
  });
  model.compile({{DType::f32, {600, 8}}});
  EXPECT_EQ(world.counters().launches, 0);
  EXPECT_TRUE(world.variables().empty()) << "planning must not create variables";
  EXPECT_THAT(model.summary(), HasSubstr("peak memory by device"));
  EXPECT_THAT(model.shard_report(), HasSubstr("optimal"));
  const std::int64_t planned = model.peak_bytes();
  model(ones({600, 8})).wait();
  EXPECT_EQ(traces, 1) << "the call must run the existing plan";
  EXPECT_EQ(model.signatures(), 1);
  std::int64_t max_bytes = 0;
  for (const auto& [device, bytes] : world.counters().peak_bytes) max_bytes = std::max(max_bytes, bytes);
  EXPECT_GE(max_bytes, planned);
  EXPECT_LE(max_bytes, planned + 2048) << "only the small plan that writes the first values may need more";
  model.compile({{DType::f32, {600, 8}}});
  EXPECT_EQ(model.signatures(), 1) << "the new plan must replace the previous one";
  EXPECT_THAT(error_of([&] { model.compile({}); }), HasSubstr("expects 1 argument, got 0"));
}

TEST(Planned, EachLayoutOfAParameterIsExplained) {
  World world({.devices = 2});
  Net net;
  auto model = compile(world.mesh("model=2"), [&](Tensor x) { return net(x); },
                       {.rules = {{"fc1.weight", P("model", nullptr)}}});
  EXPECT_THAT(error_of([&] { model.explain("fc1.weight"); }), HasSubstr("has no plan before its first call"));
  model.compile({{DType::f32, {600, 8}}});
  const std::string explanation = model.explain("fc1.weight");
  EXPECT_THAT(explanation, HasSubstr("'fc1.weight' on mesh(model=2), predicted for a launch"));
  EXPECT_THAT(explanation, HasSubstr("@model, 8]: ")) << "the layout of the rule must be listed";
  EXPECT_THAT(explanation, HasSubstr(", as requested; optimal"));
  EXPECT_THAT(explanation, HasSubstr(", 8@model]: "));
  EXPECT_THAT(model.explain("arg0"), HasSubstr("f32[600, 8;]: "));
  EXPECT_THAT(error_of([&] { model.explain("fc1.wieght"); }),
              HasSubstr("unknown value, module or variable 'fc1.wieght'; there are "));
  model(ones({600, 8})).wait();
  EXPECT_EQ(model.explain("fc1.weight"), explanation)
      << "explain must use the layouts at planning time, not those stored later";
}

TEST(Planned, AFunctionIsPlannedAgainAfterAnotherFunctionStoredADifferentLayout) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("model=2");
  Net net;
  auto body = [&](Tensor x) { return net(x); };
  auto other = compile(mesh, body, {.rules = {{"fc1.weight", P("model", nullptr)}}});
  auto free = compile(mesh, body);
  free.compile({{DType::f32, {6, 8}}});
  EXPECT_EQ(free.signatures(), 1);
  other(ones({6, 8})).wait();
  EXPECT_EQ(print(world.layout("fc1.weight")), "(S(0))");
  const HostArray result = free(ones({6, 8})).value().read(), expected = other(ones({6, 8})).value().read();
  for (std::size_t i = 0; i < 24; ++i) EXPECT_NEAR(result.data<float>()[i], expected.data<float>()[i], 1e-6);
  EXPECT_EQ(free.signatures(), 1);
}

TEST(Planned, APlanAboveTheMemoryLimitIsRejectedWithAListOfItsLargestTensors) {
  World world({.memory = 20'000});
  Net net;
  auto model = compile(world.mesh(), [&](Tensor x) { return net(x); }, {.name = "wide"});
  EXPECT_NO_THROW(model(ones({6, 8})).wait());
  const std::string text = error_of([&] { model.compile({{DType::f32, {400, 8}}}); });
  EXPECT_THAT(text, HasSubstr("plan 'wide' needs "));
  EXPECT_THAT(text, HasSubstr(" on device 0.0, but the limit is 19.53 KiB (20000 bytes); this is the smallest of "));
  EXPECT_THAT(text, HasSubstr("\n  25.00 KiB  f32[400, 16] of matmul at "));
  EXPECT_THAT(text, HasSubstr("variable 'fc1.weight' f32[16, 8]"));
  EXPECT_LT(text.find("25.00 KiB"), text.find("6.25 KiB")) << "the largest tensor must come first";
  EXPECT_LT(text.find("6.25 KiB"), text.find("variable 'fc1.weight'"));
  EXPECT_NO_THROW(model(ones({6, 8})).wait()) << "earlier plans must still run";
  EXPECT_EQ(error_of([] { World({.memory = -1}); }), "World: memory must be at least 0 (0 means no limit), got -1");
}

struct Stages : nn::Module {
  nn::Linear a{*this, "a", 32, 32}, b{*this, "b", 32, 32}, c{*this, "c", 32, 32}, d{*this, "d", 32, 32};
  Tensor operator()(Tensor x) { return tanh(d(tanh(c(tanh(b(tanh(a(x)))))))); }
};

class OnesSource : public Source {
 public:
  TensorType type() const override { return {DType::f32, {6 * 256, 32}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<float>()[static_cast<std::size_t>(i)] = 1;
  }
};

struct Trained {
  std::int64_t peak = 0;
  // The planner's bound on the time of a launch in microseconds, with and without the limit; 0 if no slots were given
  // up.
  double predicted = 0, predicted_unlimited = 0;
  std::vector<float> losses;
  std::string summary;
};

// Runs three steps of a pipeline with four stages and six micro-batches. The input is a source or an array.
Trained train(std::int64_t memory, bool source) {
  CostTable costs;
  costs.link = {.alpha = 1e-9, .beta = 1e-13};
  World world({.devices = 4, .costs = costs, .memory = memory});
  Stages net;
  optim::SGD sgd(net.parameters(), {.lr = 0.01});
  auto step = compile(world.mesh("stage=4"),
                      [&](Tensor x) {
                        Tensor loss = sum(net(x));
                        sgd.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.placements = {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}}, .microbatches = 6});
  Trained out;
  const HostArray x = ones({6 * 256, 32});
  for (int i = 0; i < 3; ++i) {
    if (source) out.losses.push_back(step(Feed{std::make_shared<OnesSource>(), i}).item<float>());
    else out.losses.push_back(step(x).item<float>());
  }
  out.peak = step.peak_bytes();
  out.summary = step.summary();
  std::smatch match;
  if (std::regex_search(out.summary, match,
                        std::regex("a launch every ([0-9.]+) us, predicted; without that limit ([0-9.]+) us\n$")))
    out.predicted = std::stod(match[1]), out.predicted_unlimited = std::stod(match[2]);
  return out;
}

// Lowers the limit until a plan is rejected. Memory decreases, launches never become faster, and losses do not change.
TEST(Planned, SlotsAreGivenUpBeforeAPlanIsRejected) {
  for (const bool source : {false, true}) {
    const Trained free = train(0, source);
    EXPECT_EQ(free.summary.find("given up"), std::string::npos);
    Trained previous = free;
    int plans = 0;
    std::string rejection;
    for (std::int64_t memory = free.peak - 1; rejection.empty(); memory = previous.peak - 1) {
      Trained current;
      try {
        current = train(memory, source);
      } catch (const Error& error) {
        rejection = error.what();
        EXPECT_EQ(error.kind, ErrorKind::device);
        continue;
      }
      ++plans;
      EXPECT_LE(current.peak, memory);
      EXPECT_GE(current.predicted, plans == 1 ? current.predicted_unlimited : previous.predicted);
      EXPECT_EQ(current.predicted_unlimited, plans == 1 ? current.predicted_unlimited : previous.predicted_unlimited);
      EXPECT_EQ(current.losses, free.losses);
      EXPECT_THAT(
          current.summary,
          ::testing::ContainsRegex("\nslots given up to fit .* per device: by the planner's bound a launch every "));
      EXPECT_GT(current.predicted_unlimited, 0) << current.summary;
      previous = current;
    }
    EXPECT_GE(plans, 2);
    EXPECT_GT(previous.predicted, 1.5 * previous.predicted_unlimited)
        << "with few slots, the four stages must wait for each other";
    EXPECT_THAT(rejection, HasSubstr(" tried; the largest 10 of its "));
    EXPECT_EQ(rejection.find(" times"), std::string::npos) << "every register must have one slot before a plan is "
                                                              "rejected\n"
                                                           << rejection;
  }
}

TEST(CheckNan, TheErrorContainsTheFirstOpTheLaunchAndTheLine) {
  for (const char* mesh : {"", "data=2"}) {
    World world({.devices = 2, .check_nan = true});
    auto model = compile(world.mesh(mesh), [](Tensor x) {
      Tensor y = log(x);
      return sum(sqrt(y * 2.0));
    });
    EXPECT_NO_THROW(model(ones({4, 3})).wait());
    HostArray x = ones({4, 3});
    x.data<float>()[4] = 0;
    const std::string text = error_of([&] { model(x).wait(); });
    EXPECT_THAT(
        text,
        ::testing::ContainsRegex(
            "log at .*function_plan_test.cc:[0-9]+.*: produces -inf at \\[1, 1\\] of f32\\[[24], 3\\] \\[launch 2, "))
        << mesh;
  }
}

TEST(CheckNan, ConstantsOfTheProgramAreIgnored) {
  World world({.check_nan = true});
  for (const std::int64_t n : {4, 64}) {  // a small constant is made once, a large one in each launch
    auto masked = compile(world.mesh(), [n](Tensor x) {
      Tensor mask = select(iota({n, n}, 1) > iota({n, n}, 0), full({n, n}, -std::numeric_limits<double>::infinity()),
                           full({n, n}, 0.0));
      return softmax(x + mask);
    });
    EXPECT_NO_THROW(masked(ones({n, n})).wait()) << "a mask with -inf must be allowed";
  }
  auto masked = compile(world.mesh(), [](Tensor x) { return softmax(x); });
  HostArray x = ones({4, 4});
  x.data<float>()[3] = std::nanf("");
  EXPECT_THAT(error_of([&] { masked(x).wait(); }), HasSubstr("holds NaN at [0, 3] of f32[4, 4]"));
}

TEST(CheckNan, AVariableThatContainedNaNBeforeTheLaunchIsReported) {
  using Rules = std::vector<LayoutRule>;
  for (const char* mesh : {"", "data=2"}) {
    for (const bool gathered : {false, true}) {
      World world({.devices = 2});
      const Parameter w("w", {DType::f32, {2, 3}}, constant_init(1));
      auto model =
          compile(world.mesh(mesh), [&](Tensor x) { return gathered ? with_layout(w * 1, P(nullptr)) + x : w * x; },
                  {.rules = *mesh == 0 ? Rules() : Rules{{"w", P("data")}}, .check_nan = true});
      world.write(w, HostArray::of<float>({2, 3}, {1, 2, 3, 4, std::numeric_limits<float>::infinity(), 6}));
      EXPECT_NO_THROW(model(ones({2, 3})).wait()) << "an infinity must be allowed, because it may be intended";
      world.write(w, HostArray::of<float>({2, 3}, {1, 2, 3, 4, std::nanf(""), 6}));
      EXPECT_THAT(error_of([&] {
                    model(ones({2, 3})).wait();
                  }),
                  ::testing::ContainsRegex(
                      "reads variable 'w(#[0-9]+)?', which holds NaN at \\[[01], 1\\] of f32\\[[12], 3\\]"));
    }
  }
}

TEST(CheckNan, TheMaximumOfAnEmptyPartIsIgnored) {
  World world({.devices = 4, .check_nan = true});
  auto maximum = compile(world.mesh("data=4"), [](Tensor x) { return max(with_layout(x, P("data"))); });
  EXPECT_EQ(maximum(ones({3})).item<float>(), 1);
}

TEST(CheckNan, TheCheckIsOffByDefault) {
  World world;
  auto model = compile(world.mesh(), [](Tensor x) { return log(x); });
  HostArray zero(TensorType{DType::f32, {1}});
  EXPECT_EQ(model(zero).item<float>(), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace karez
