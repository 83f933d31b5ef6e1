// Compares functions of images for tensors with the functions of the same names for data sets.
#include "karez/api/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "karez/api/compile.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/testing/test_values.h"
#include "karez/api/world.h"
#include "karez/data/stages/element.h"

namespace karez {
namespace {

HostArray random_bytes(Shape shape) {
  std::mt19937 random(7);
  HostArray out(TensorType{DType::u8, std::move(shape)});
  for (std::uint8_t& byte : out.data<std::uint8_t>()) byte = static_cast<std::uint8_t>(random());
  return out;
}

struct Case {
  const char* name;
  data::images::ImageFunction stage;
  std::function<Tensor(Tensor)> of_tensor;
};

TEST(Images, FunctionsOfTensorsReturnTheBitsOfStages) {
  World world;
  Interactive scope(world.mesh());
  const HostArray image = random_bytes({9, 8, 4});
  const std::vector<Case> cases = {
      {"crop", images::crop(1, 2, 3, 4), [](Tensor x) { return images::crop(x, 1, 2, 3, 4); }},
      {"center_crop", images::center_crop(5, 12), [](Tensor x) { return images::center_crop(x, 5, 12); }},
      {"pad", images::pad(2), [](Tensor x) { return images::pad(x, 2); }},
      {"flip", images::horizontal_flip(), [](Tensor x) { return images::horizontal_flip(x); }},
      {"transpose", images::transpose({2, 0, 1}),
       [](Tensor x) {
         return images::transpose(x, {2, 0, 1});
       }},
      {"resize", images::resize(5, 3, true), [](Tensor x) { return images::resize(x, 5, 3, true); }},
      {"shorter side", images::resize(5), [](Tensor x) { return images::resize(x, 5); }},
      {"brightness", images::adjust_brightness(0.3), [](Tensor x) { return images::adjust_brightness(x, 0.3); }},
      {"contrast", images::adjust_contrast(1.3), [](Tensor x) { return images::adjust_contrast(x, 1.3); }},
      {"saturation", images::adjust_saturation(1.3), [](Tensor x) { return images::adjust_saturation(x, 1.3); }},
      {"normalize", images::normalize({0.5}, {0.1, 0.2, 0.3, 0.4}),
       [](Tensor x) {
         return images::normalize(x, {0.5}, {0.1, 0.2, 0.3, 0.4});
       }},
      {"one_hot", images::one_hot(256), [](Tensor x) { return images::one_hot(x, 256); }},
  };
  for (const Case& c : cases) {
    const HostArray expected = data::array_of(c.stage(data::element({image})));
    expect_values(c.name, c.of_tensor(Tensor(image)), expected.type(), numbers_of(expected), 0);
  }
}

TEST(Images, RandomFunctionsDrawNumbersInEachCall) {
  World world;
  const HostArray batch = random_bytes({6, 9, 8, 3});
  auto step = compile(world.mesh(), [](Tensor x) {
    x = images::random_crop(x, 6, 6, 1);
    x = images::random_horizontal_flip(x);
    x = images::cut_out(images::color_jitter(x, 0.5, 0.5, 0.5), 2);
    return images::random_resized_crop(x, 4, 5);
  });
  const HostArray first = step(batch).value().read(), second = step(batch).value().read();
  EXPECT_EQ(first.type(), (TensorType{DType::u8, {6, 4, 5, 3}}));
  EXPECT_NE(numbers_of(first), numbers_of(second));
}

TEST(Images, MixUpTakesARatioOrDrawsIt) {
  World world;
  Interactive scope(world.mesh());
  const Tensor x = HostArray::of<float>({2, 1}, {0, 1}), y = HostArray::of<float>({2}, {4, 8});
  const auto [images, labels] = images::mix_up(x, y, Tensor(0.25));
  expect_values("images", images, {DType::f32, {2, 1}}, {0.75, 0.25});
  expect_values("labels", labels, {DType::f32, {2}}, {7, 5});
  const std::vector<double> drawn = numbers_of(images::mix_up(x, y, 0.5).images.read());
  EXPECT_NEAR(drawn[0] + drawn[1], 1, 1e-6);
  EXPECT_GE(drawn[1], 0);
}

TEST(Images, OptionsAreCheckedByTheStage) {
  World world;
  const Tensor x = random_bytes({4, 4, 3});
  using Call = std::function<Tensor()>;
  const std::vector<std::pair<const char*, Call>> cases = {
      {"crop: top and left must be at least 0", [&] { return images::crop(x, -1, 0, 2, 2); }},
      {"resize: height and width must be at least 1", [&] { return images::resize(x, 0, 2); }},
      {"adjust_contrast: factor must be at least 0", [&] { return images::adjust_contrast(x, -1); }},
      {"normalize: a number of std must be above 0", [&] { return images::normalize(x, {0.5F}, {0.F}); }},
      {"random_horizontal_flip: p must be between", [&] { return images::random_horizontal_flip(x, 2); }},
      {"cut_out: size must be at least 1", [&] { return images::cut_out(x, 0); }}};
  for (const auto& [text, call] : cases) EXPECT_THAT(error_of(call), testing::HasSubstr(text));
}

}  // namespace
}  // namespace karez
