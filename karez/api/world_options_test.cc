// Tests of numbers that users pass to the API: a number that is not finite, out of range or too large causes an
// immediate error that quotes the number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/options.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

std::vector<Parameter> one_parameter() { return {Parameter("w", {DType::f32, {2}}, constant_init(0))}; }

TEST(Numbers, OptionsOfSGDAreCheckedAsInPyTorch) {
  auto error = [](optim::SGDOptions o) { return error_of([&] { optim::SGD(one_parameter(), o); }); };
  EXPECT_EQ(error({.lr = nan}), "optimiser 'sgd': lr is nan; it must be finite and at least 0");
  EXPECT_EQ(error({.lr = -0.1}), "optimiser 'sgd': lr is -0.1; it must be finite and at least 0");
  EXPECT_EQ(error({.lr = inf}), "optimiser 'sgd': lr is inf; it must be finite and at least 0");
  EXPECT_EQ(error({.momentum = -1}), "optimiser 'sgd': momentum is -1.0; it must be finite and at least 0");
  EXPECT_EQ(error({.momentum = nan}), "optimiser 'sgd': momentum is nan; it must be finite and at least 0");
  EXPECT_EQ(error({.weight_decay = -1}), "optimiser 'sgd': weight_decay is -1.0; it must be finite and at least 0");
  EXPECT_EQ(error({.nesterov = true}), "optimiser 'sgd': nesterov requires a momentum above 0, got 0.0");
  EXPECT_EQ(error({.lr = 0, .momentum = 0.9, .nesterov = true}), "no error");
}

TEST(Numbers, OptionsOfAdamAreCheckedAsInPyTorch) {
  auto error = [](optim::AdamOptions o) { return error_of([&] { optim::Adam(one_parameter(), o); }); };
  EXPECT_EQ(error({.lr = nan}), "optimiser 'adam': lr is nan; it must be finite and at least 0");
  EXPECT_EQ(error({.beta1 = 1}), "optimiser 'adam': beta1 is 1.0; it must be in [0, 1)");
  EXPECT_EQ(error({.beta1 = nan}), "optimiser 'adam': beta1 is nan; it must be in [0, 1)");
  EXPECT_EQ(error({.beta2 = -0.5}), "optimiser 'adam': beta2 is -0.5; it must be in [0, 1)");
  EXPECT_EQ(error({.eps = -1e-8}), "optimiser 'adam': eps is -1e-08; it must be finite and at least 0");
  EXPECT_EQ(error({.eps = nan}), "optimiser 'adam': eps is nan; it must be finite and at least 0");
  EXPECT_EQ(error({.weight_decay = inf}), "optimiser 'adam': weight_decay is inf; it must be finite and at least 0");
  EXPECT_EQ(error({.lr = 0, .beta1 = 0, .eps = 0}), "no error");
}

TEST(Numbers, ANewLearningRateMustBeFinite) {
  optim::SGD sgd(one_parameter(), {.lr = 0.5});
  EXPECT_EQ(error_of([&] { sgd.set_lr(nan); }), "the learning rate is nan; it must be finite and at least 0");
  EXPECT_EQ(error_of([&] { sgd.set_lr(-1); }), "the learning rate is -1.0; it must be finite and at least 0");
  EXPECT_EQ(sgd.lr(), 0.5) << "a rejected learning rate changes nothing";
  sgd.set_lr(0.25);
  EXPECT_EQ(sgd.lr(), 0.25);
  EXPECT_THAT(error_of([] { optim::Rate rate(inf); }), HasSubstr("the learning rate is inf"));
}

TEST(Numbers, AMaximumOfNoElementsIsAnError) {
  World world;
  auto error = [&](Shape shape, Ints axes, bool largest = true) {
    return error_of([&] {
      compile(world.mesh(), [&](Tensor x) { return largest ? max(x, axes) : min(x, axes); })(
          HostArray(TensorType{DType::f32, shape}));
    });
  };
  EXPECT_THAT(error({0}, {}),
              HasSubstr("max of f32[0]: dimension 0 has no elements to choose from\n  at world_options_test.cc:"));
  EXPECT_THAT(error({2, 0}, {-1}), HasSubstr("max of f32[2, 0]: dimension 1 has no elements"));
  EXPECT_THAT(error({0, 3}, {0, 1}), HasSubstr("max of f32[0, 3]: dimension 0 has no elements"));
  EXPECT_THAT(error({0, 3}, {0}, false), HasSubstr("min of f32[0, 3]: dimension 0 has no elements"));
  EXPECT_EQ(error({0, 3}, {1}, false), "no error");
  EXPECT_EQ(error({0, 3}, {1}), "no error") << "the result has no elements";
  auto position_error = [&](auto function) {
    return error_of([&] { compile(world.mesh(), function)(HostArray(TensorType{DType::i64, {2, 0}})); });
  };
  EXPECT_THAT(position_error([](Tensor x) { return arg_max(x); }),
              HasSubstr("arg_max of i64[2, 0]: dimension 1 has no elements"));
  EXPECT_THAT(position_error([](Tensor x) { return arg_min(x); }),
              HasSubstr("arg_min of i64[2, 0]: dimension 1 has no elements"));
}

TEST(Numbers, MoreDevicesThanTheLimitAreAnImmediateError) {
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of([] { World({.devices = 99999}); }),
            "World: 99999 devices exceed the limit of 4096; World({.devices = 99999, .device_limit = 99999}) raises "
            "the limit, but plans for so many devices take minutes to make");
  EXPECT_THAT(error_of([] { World({.devices = 4097}); }), HasSubstr("4097 devices exceed the limit of 4096"));
  EXPECT_THAT(error_of([] { World({.devices = 3, .device_limit = 2}); }), HasSubstr("exceed the limit of 2;"));
  EXPECT_EQ(error_of([] { World({.devices = 4096}); }), "no error");
  EXPECT_EQ(error_of([] { World({.devices = 5000, .device_limit = 5000}).mesh("data=5000"); }), "no error");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Numbers, InvalidWorldOptionsAreErrors) {
  EXPECT_EQ(error_of([] { World({.devices = 0}); }), "World: devices must be at least 1, got 0");
  EXPECT_EQ(error_of([] { World({.devices = -1}); }), "World: devices must be at least 1, got -1");
  EXPECT_EQ(error_of([] { World({.device_limit = 0}); }), "World: device_limit must be at least 1, got 0");
  for (int in_flight : {0, 1025})
    EXPECT_EQ(error_of([&] { World({.in_flight = in_flight}); }),
              cat("World: in_flight must be from 1 to 1024, got ", in_flight));
  EXPECT_EQ(error_of([] { World({.in_flight = 1024}); }), "no error");
  EXPECT_THAT(error_of([] { World({.workers = -1}); }), HasSubstr("workers must be at least 0"));
  EXPECT_THAT(error_of([] { World({.team = -1}); }), HasSubstr("team must be from 0 to 1024"));
  EXPECT_EQ(error_of([] { World({.team = 1000000}); }),
            "World: team must be from 0 to 1024 (0 chooses the number automatically), got 1000000");
  EXPECT_THAT(error_of([] { World().mesh(std::vector<MeshAxis>{MeshAxis{"data", 0}}); }), HasSubstr("size 0"));
  EXPECT_THAT(error_of([] { World().mesh("data=-2"); }), HasSubstr("-2"));
  EXPECT_THAT(error_of([] { World().mesh("data=2"); }), HasSubstr("the world has 1"));
}

TEST(Numbers, InvalidNumbersOfACompiledFunctionAreErrors) {
  World world;
  auto identity = [](Tensor x) { return x; };
  EXPECT_THAT(error_of([&] { compile(world.mesh(), identity, {.microbatches = 0}); }),
              HasSubstr("microbatches is 0; it must be at least 1"));
  EXPECT_THAT(error_of([&] { compile(world.mesh(), identity, {.microbatches = -3}); }),
              HasSubstr("microbatches is -3; it must be at least 1"));
  EXPECT_THAT(error_of([&] { compile(world.mesh(), identity, {.keep = -1}); }), HasSubstr("keep is -1"));
}

TEST(Numbers, InvalidNumbersOfLayersAreErrors) {
  struct Net : nn::Module {};
  auto error = [](auto make) {
    return error_of([&] {
      Net net;
      make(net);
    });
  };
  EXPECT_THAT(error([](auto& net) { nn::Linear(net, "fc", 0, 2); }), HasSubstr("at least 1, got 0 and 2"));
  EXPECT_THAT(error([](auto& net) { nn::Linear(net, "fc", 2, -2); }), HasSubstr("at least 1, got 2 and -2"));
  EXPECT_THAT(error([](auto& net) { nn::Linear(net, "fc", std::int64_t{1} << 40, std::int64_t{1} << 40); }),
              HasSubstr("overflows"));
  EXPECT_THAT(error([](auto& net) { nn::Conv2d(net, "c", 1, 2, 0); }), HasSubstr("at least 1, got 1, 2 and 0"));
  EXPECT_THAT(error([](auto& net) { nn::Conv2d(net, "c", 1, 2, 3, {.stride = 0}); }), HasSubstr("got 0 and 0"));
  EXPECT_THAT(error([](auto& net) { nn::Conv2d(net, "c", 1, 2, 3, {.padding = -1}); }), HasSubstr("got 1 and -1"));
  EXPECT_THAT(error([](auto& net) { nn::Conv2d(net, "c", 1, 1, std::int64_t{1} << 40); }), HasSubstr("overflows"));
  EXPECT_THAT(error([](auto& net) { nn::MaxPool2d(net, "p", 0); }), HasSubstr("got kernel 0"));
  EXPECT_THAT(error([](auto& net) { nn::AvgPool2d(net, "p", 2, -1); }), HasSubstr("stride -1"));
  EXPECT_THAT(error([](auto& net) { nn::MaxPool2d(net, "p", 2, 2, -1); }), HasSubstr("padding -1"));
  EXPECT_THAT(error([](auto& net) { nn::Dropout(net, "d", nan); }), HasSubstr("must be in [0, 1), got nan"));
  EXPECT_THAT(error([](auto& net) { nn::Dropout(net, "d", 1); }), HasSubstr("must be in [0, 1), got 1.0"));
}

TEST(Numbers, InvalidNumbersOfParametersAreErrors) {
  auto error = [](Shape shape) { return error_of([&] { Parameter("w", {DType::f32, shape}, constant_init(0)); }); };
  EXPECT_EQ(error({2, 0}), "parameter 'w' is f32[2, 0]; its sizes must be at least 1");
  EXPECT_EQ(error({-2}), "parameter 'w' is f32[-2]; its sizes must be at least 1");
  EXPECT_THAT(error({std::int64_t{1} << 40, std::int64_t{1} << 40}), HasSubstr("overflows"));
  EXPECT_EQ(error({}), "no error");
  EXPECT_EQ(error_of([] {
              Parameter("", {DType::f32, {1}}, constant_init(0));
            }),
            "a parameter f32[1] has an empty name");
  EXPECT_EQ(error_of([] { Parameter("w", {DType::f32, {1}}, nullptr); }), "parameter 'w' has no initialiser");
  EXPECT_THAT(error_of([] { uniform_init(nan); }), HasSubstr("bound must be finite and at least 0, got nan"));
  EXPECT_THAT(error_of([] { uniform_init(-1); }), HasSubstr("bound must be finite and at least 0, got -1.0"));
}

TEST(Numbers, InvalidNumbersOfFunctionsAreErrors) {
  World world;
  HostArray image(TensorType{DType::f32, {1, 1, 4, 4}});
  auto error = [&](auto body) { return error_of([&] { compile(world.mesh(), body)(image); }); };
  EXPECT_THAT(error([](Tensor x) { return dropout(x, nan); }), HasSubstr("must be in [0, 1), got nan"));
  EXPECT_THAT(error([](Tensor x) { return dropout(x, -0.1); }), HasSubstr("must be in [0, 1), got -0.1"));
  EXPECT_THAT(error([](Tensor x) { return max_pool(x, 0); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return max_pool(x, 2, -1); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return avg_pool(x, 2, 2, -1); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return max_pool(x, std::int64_t{1} << 62); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) {
                return conv2d(x, full({1, 1, 3, 3}, 1), {.stride = {0, 1}});
              }),
              HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) {
                return conv2d(x, full({1, 1, 3, 3}, 1), {.padding = {-1, 0}});
              }),
              HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) {
                return conv2d(x, full({1, 1, 3, 3}, 1), {.dilation = {1, 0}});
              }),
              HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) {
                return conv2d(x, full({1, 1, 3, 3}, 1), {.stride = {1}});
              }),
              HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return reshape(x, {-2, 8}); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return softmax(x, 4); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return sum(x, {-5}); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) {
                return slice(x, {0, 0, 0, 3}, {1, 1, 4, 2});
              }),
              HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) {
                return slice(x, {0, 0, 0, -1}, {1, 1, 4, 1});
              }),
              HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return pad(x, {0, 0, 0, -1}, {0, 0, 0, 0}); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor) { return full({-1}, 0); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor) { return iota({4}, 1); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return one_hot(cast(x, DType::i64), -1); }), HasSubstr("world_options_test.cc:"));
  EXPECT_THAT(error([](Tensor x) { return broadcast_to(x, {1, 1, 4, -4}); }), HasSubstr("world_options_test.cc:"));
}

TEST(Numbers, InvalidNumbersOnTheCommandLineAreErrors) {
  auto read = [](const char* text) {
    Options options({{"lr", "1", ""}, {"batch", "1", ""}});
    const char* arguments[] = {"program", "--lr", text, "--batch", text};
    options.read(5, arguments);
    return options;
  };
  EXPECT_EQ(error_of([&] { read("nan").real("lr"); }), "option --lr: nan is not a finite number");
  EXPECT_EQ(error_of([&] { read("-inf").real("lr"); }), "option --lr: -inf is not a finite number");
  EXPECT_THAT(error_of([&] { read("1e999").real("lr"); }), HasSubstr("option --lr: '1e999'"));
  EXPECT_EQ(error_of([&] { read("0").integer("batch", 1); }), "option --batch: 0 is below 1");
  EXPECT_EQ(error_of([&] { read("9").integer("batch", 1, 8); }), "option --batch: 9 is not from 1 to 8");
  EXPECT_THAT(error_of([&] { read("99999999999999999999").integer("batch"); }),
              HasSubstr("option --batch: '99999999999999999999'"));
  EXPECT_EQ(read("8").integer("batch", 1, 8), 8);
  EXPECT_EQ(read("-1e-3").real("lr"), -1e-3);
}

}  // namespace
}  // namespace karez
