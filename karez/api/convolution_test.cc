// Tests of grouped and transposed convolution. Results are compared with plain loops on every mesh; gradients are
// compared with difference quotients.
#include "karez/api/convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

double& element(const HostArray& array, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  const Shape& s = array.shape();
  return array.data<double>()[static_cast<std::size_t>(((a * s[1] + b) * s[2] + c) * s[3] + d)];
}
void expect_near(const HostArray& output, const HostArray& expected, const std::string& label) {
  ASSERT_EQ(output.type(), expected.type()) << label;
  for (std::size_t i = 0; i < expected.data<double>().size(); ++i)
    ASSERT_NEAR(output.data<double>()[i], expected.data<double>()[i], 1e-12) << label << " " << i;
}

// A reference implementation: adds each element of x, times the weights, to the result.
HostArray reference_conv_transpose(const HostArray& x, const HostArray& w, const ConvTranspose2dOptions& o) {
  const std::int64_t n = x.shape()[0], c = x.shape()[1], group_channels = w.shape()[1], in_group = c / o.groups;
  Shape shape{n, group_channels * o.groups, 0, 0};
  for (std::size_t d = 0; d < 2; ++d)
    shape[d + 2] = (x.shape()[d + 2] - 1) * o.stride[d] - 2 * o.padding[d] + o.dilation[d] * (w.shape()[d + 2] - 1) +
                   o.output_padding[d] + 1;
  HostArray out(TensorType{DType::f64, shape});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < c; ++k)
      for (std::int64_t h = 0; h < x.shape()[2]; ++h)
        for (std::int64_t v = 0; v < x.shape()[3]; ++v)
          for (std::int64_t e = 0; e < group_channels; ++e)
            for (std::int64_t r = 0; r < w.shape()[2]; ++r)
              for (std::int64_t s = 0; s < w.shape()[3]; ++s) {
                const std::int64_t p = h * o.stride[0] - o.padding[0] + r * o.dilation[0],
                                   q = v * o.stride[1] - o.padding[1] + s * o.dilation[1];
                if (p < 0 || q < 0 || p >= shape[2] || q >= shape[3]) continue;
                element(out, i, k / in_group * group_channels + e, p, q) +=
                    element(x, i, k, h, v) * element(w, k, e, r, s);
              }
  return out;
}

HostArray reference_grouped_conv(const HostArray& x, const HostArray& w, std::int64_t groups, const Conv2dOptions& o) {
  const std::int64_t group_channels = w.shape()[1], out_group = w.shape()[0] / groups;
  Shape shape{x.shape()[0], w.shape()[0], 0, 0};
  for (std::size_t d = 0; d < 2; ++d)
    shape[d + 2] = (x.shape()[d + 2] + 2 * o.padding[d] - o.dilation[d] * (w.shape()[d + 2] - 1) - 1) / o.stride[d] + 1;
  HostArray out(TensorType{DType::f64, shape});
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t k = 0; k < shape[1]; ++k)
      for (std::int64_t p = 0; p < shape[2]; ++p)
        for (std::int64_t q = 0; q < shape[3]; ++q)
          for (std::int64_t e = 0; e < group_channels; ++e)
            for (std::int64_t r = 0; r < w.shape()[2]; ++r)
              for (std::int64_t s = 0; s < w.shape()[3]; ++s) {
                const std::int64_t h = p * o.stride[0] - o.padding[0] + r * o.dilation[0],
                                   v = q * o.stride[1] - o.padding[1] + s * o.dilation[1];
                if (h < 0 || v < 0 || h >= x.shape()[2] || v >= x.shape()[3]) continue;
                element(out, i, k, p, q) +=
                    element(x, i, k / out_group * group_channels + e, h, v) * element(w, k, e, r, s);
              }
  return out;
}

const ConvTranspose2dOptions option_cases[] = {
    {},
    {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}},
    {.stride = {2, 1}, .dilation = {1, 2}, .groups = 2},
    {.stride = {3, 2}, .padding = {1, 1}, .output_padding = {0, 1}, .groups = 4},
};

TEST(ConvTranspose, ResultsEqualTheReferenceOnEveryMesh) {
  World world({.devices = 4});
  for (const char* mesh : {"", "data=2", "data=2,model=2"})
    for (const ConvTranspose2dOptions& o : option_cases) {
      const HostArray x = random_doubles({3, 4, 3, 4}, 1), w = random_doubles({4, 2, 3, 2}, 2);
      auto f = compile(world.mesh(mesh), [&](Tensor a, Tensor b) { return conv_transpose2d(a, b, o); });
      expect_near(f(x, w).value().read(), reference_conv_transpose(x, w, o), cat(mesh, " groups ", o.groups));
    }
}

TEST(GroupedConv, EachGroupUsesItsChannelsOfTheInputOnEveryMesh) {
  World world({.devices = 4});
  for (const char* mesh : {"", "data=2", "data=2,model=2"})
    for (std::int64_t groups : {1, 2, 4}) {
      const Conv2dOptions o{.stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}};
      const HostArray x = random_doubles({3, 4, 5, 6}, 1), w = random_doubles({8, 4 / groups, 3, 2}, 2);
      auto f = compile(world.mesh(mesh), [&](Tensor a, Tensor b) { return grouped_conv2d(a, b, groups, o); });
      expect_near(f(x, w).value().read(), reference_grouped_conv(x, w, groups, o), cat(mesh, " groups ", groups));
    }
}

TEST(ConvTranspose, GradientsEqualDifferenceQuotients) {
  World world;
  Interactive scope(world.mesh());
  const HostArray seed = random_doubles({1, 4, 6, 5}, 3);
  const auto loss = [&](Tensor x, Tensor w) {
    const Tensor y =
        conv_transpose2d(x, w, {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 0}, .groups = 2});
    return sum(y * y * seed) + sum(grouped_conv2d(x, w, 2, {.padding = {1, 1}}));
  };
  HostArray operands[] = {random_doubles({1, 4, 3, 3}, 1), random_doubles({4, 2, 3, 3}, 2)};
  const auto result = value_and_grad(loss, {.arguments = {0, 1}})(operands[0], operands[1]);
  for (std::size_t operand = 0; operand < 2; ++operand) {
    const HostArray gradient = result.gradients[operand].read();
    for (std::size_t i = 0; i < gradient.data<double>().size(); i += 3) {
      double& element_value = operands[operand].data<double>()[i];
      const double old_value = element_value, step = 1e-5;
      element_value = old_value + step;
      const double loss_above = loss(operands[0], operands[1]).item();
      element_value = old_value - step;
      const double loss_below = loss(operands[0], operands[1]).item();
      element_value = old_value;
      EXPECT_NEAR(gradient.data<double>()[i], (loss_above - loss_below) / (2 * step), 1e-6) << operand << " " << i;
    }
  }
}

TEST(ConvTranspose, TheLayerAddsItsBias) {
  World world;
  Interactive scope(world.mesh());
  struct Net : nn::Module {
    Net() : Module(DType::f64) {}
    nn::ConvTranspose2d up{*this, "up", 4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}};
  } net;
  const HostArray x = random_doubles({2, 4, 3, 3}, 1), output = net.up(x).read(), bias = world.read("up.bias");
  EXPECT_EQ(net.up.weight.shape(), (Shape{4, 3, 3, 3}));
  HostArray expected = reference_conv_transpose(
      x, world.read("up.weight"), {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}, .groups = 2});
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t o = 0; o < 6; ++o)
      for (std::int64_t p = 0; p < 6; ++p)
        for (std::int64_t q = 0; q < 6; ++q)
          element(expected, n, o, p, q) += bias.data<double>()[static_cast<std::size_t>(o)];
  expect_near(output, expected, "layer");
}

TEST(ConvTranspose, MismatchesAreErrors) {
  const Tensor x = random_doubles({1, 4, 3, 3}, 1), w = random_doubles({4, 2, 3, 3}, 2);
  EXPECT_THAT(error_of([&] {
                conv_transpose2d(x, random_doubles({6, 2, 3, 3}, 1));
              }),
              HasSubstr("dimension 0 of the weight must be the 4 channels of x"));
  EXPECT_THAT(error_of([&] { conv_transpose2d(x, w, {.groups = 3}); }),
              HasSubstr("conv_transpose2d: groups must divide the channels (dimension 1) of x"));
  EXPECT_THAT(error_of([&] {
                conv_transpose2d(x, w, {.output_padding = {1, 0}});
              }),
              HasSubstr("output_padding must be at least 0 and below stride or dilation; got output_padding 1"));
  EXPECT_THAT(error_of([&] {
                conv_transpose2d(x, w, {.padding = {3, 3}});
              }),
              HasSubstr("gives a result of height -1; it must be at least 1"));
  EXPECT_THAT(error_of([&] { conv_transpose2d(x, w, {.stride = {1}}); }), HasSubstr("must be two numbers each"));
  EXPECT_THAT(error_of([&] { grouped_conv2d(x, w, 3); }),
              HasSubstr("grouped_conv2d: groups must divide the channels (dimension 1) of x"));
  EXPECT_THAT(error_of([&] { grouped_conv2d(x, w, 4); }), HasSubstr("channels differ: 1 and 2"));
}

}  // namespace
}  // namespace karez
