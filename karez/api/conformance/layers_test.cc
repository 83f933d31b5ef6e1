// Tests of layers: names, shapes and bounds of initial weights, results with each option, and running statistics of
// batch norm with and without micro-batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "karez/api/batch_parts.h"
#include "karez/api/compile.h"
#include "karez/api/convolution.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/recurrent.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/testing/test_values.h"

namespace karez {
namespace {

struct Root : nn::Module {
  Root() : Module(DType::f64) {}
};

TEST(Layers, WeightsHaveTheNamesShapesAndBoundsOfPyTorch) {
  struct Net : Root {
    nn::Linear linear{*this, "linear", 100, 30};
    nn::Linear plain{*this, "plain", 64, 64, false};
    nn::Conv2d conv{*this, "conv", 4, 50, 5};
    nn::Conv2d conv_plain{*this, "conv_plain", 3, 64, 2, {.bias = false}};
    nn::Conv1d line{*this, "line", 8, 60, 8};
    nn::ConvTranspose2d up{*this, "up", 6, 40, 4, {.groups = 2}};
    nn::LSTM lstm{*this, "lstm", 9, 25, {.layers = 2}};
    nn::GRU gru{*this, "gru", 25, 16, {.bias = false}};
    nn::LayerNorm layer_norm{*this, "layer_norm", {2, 3}};
    nn::RMSNorm rms_norm{*this, "rms_norm", {5}};
    nn::BatchNorm batch_norm{*this, "batch_norm", 4};
    nn::GroupNorm group_norm{*this, "group_norm", 3, 6};
    nn::MultiHeadAttention attention{*this, "attention", 12, 6, {.kv_heads = 2, .bias = false}};
  } net;
  struct Weight {
    std::string name;
    Shape shape;
    double bound = 0;  // of uniform initial values; 0 means that all initial values are `value`
    double value = 0;
  };
  const std::vector<Weight> expected = {
      {"linear.weight", {30, 100}, 0.1},
      {"linear.bias", {30}, 0.1},
      {"plain.weight", {64, 64}, 0.125},
      {"conv.weight", {50, 4, 5, 5}, 0.1},
      {"conv.bias", {50}, 0.1},
      {"conv_plain.weight", {64, 3, 2, 2}, 1 / std::sqrt(12)},
      {"line.weight", {60, 8, 8}, 0.125},
      {"line.bias", {60}, 0.125},
      {"up.weight", {6, 20, 4, 4}, 1 / std::sqrt(320)},
      {"up.bias", {40}, 1 / std::sqrt(320)},
      {"lstm.weight_ih_l0", {100, 9}, 0.2},
      {"lstm.weight_hh_l0", {100, 25}, 0.2},
      {"lstm.bias_ih_l0", {100}, 0.2},
      {"lstm.bias_hh_l0", {100}, 0.2},
      {"lstm.weight_ih_l1", {100, 25}, 0.2},
      {"lstm.weight_hh_l1", {100, 25}, 0.2},
      {"lstm.bias_ih_l1", {100}, 0.2},
      {"lstm.bias_hh_l1", {100}, 0.2},
      {"gru.weight_ih_l0", {48, 25}, 0.25},
      {"gru.weight_hh_l0", {48, 16}, 0.25},
      {"layer_norm.weight", {2, 3}, 0, 1},
      {"layer_norm.bias", {2, 3}},
      {"rms_norm.weight", {5}, 0, 1},
      {"batch_norm.weight", {4}, 0, 1},
      {"batch_norm.bias", {4}},
      {"group_norm.weight", {6}, 0, 1},
      {"group_norm.bias", {6}},
      {"attention.query.weight", {12, 12}, 1 / std::sqrt(12)},
      {"attention.key.weight", {4, 12}, 1 / std::sqrt(12)},
      {"attention.value.weight", {4, 12}, 1 / std::sqrt(12)},
      {"attention.out.weight", {12, 12}, 1 / std::sqrt(12)},
      {"batch_norm.running_mean", {4}},
      {"batch_norm.running_var", {4}, 0, 1},
      {"batch_norm.num_batches_tracked", {}},
  };
  const std::vector<Parameter> state = net.state();
  ASSERT_EQ(state.size(), expected.size());
  EXPECT_EQ(net.parameters().size(), expected.size() - 3);
  EXPECT_EQ(net.batch_norm.state().size(), 5u);
  const std::vector<HostArray> values = World().first_values(state);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, shape, bound, value] = expected[i];
    EXPECT_EQ(state[i].name(), name);
    EXPECT_EQ(state[i].type(), (TensorType{name.ends_with("tracked") ? DType::i64 : DType::f64, shape})) << name;
    const std::vector<double> numbers = numbers_of(values[i]);
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    if (bound == 0) {
      EXPECT_EQ(*least, value) << name;
      EXPECT_EQ(*most, value) << name;
    } else {
      EXPECT_GE(*least, -bound) << name;
      EXPECT_LE(*most, bound) << name;
      EXPECT_LT(*least, -0.75 * bound) << name;
      EXPECT_GT(*most, 0.75 * bound) << name;
    }
  }
}

// Compares the result of each layer with that of the function that the layer calls.
TEST(Layers, EachOptionReachesTheFunction) {
  World world;
  Interactive scope(world.mesh());
  struct Net : Root {
    nn::Linear linear{*this, "linear", 4, 3}, plain{*this, "plain", 4, 3, false};
    nn::Conv2d conv{*this, "conv", 2, 3, 3, {.stride = 2, .padding = 1}}, unpadded{*this, "unpadded", 2, 3, 3};
    nn::Conv1d line{*this, "line", 2, 3, 3, {.stride = 2, .padding = 1}};
    nn::Conv1d line_plain{*this, "line_plain", 2, 3, 2, {.bias = false}};
    nn::MaxPool2d max{*this, "max", 3, 2, 1}, max_step{*this, "max_step", 2};
    nn::AvgPool2d avg{*this, "avg", 3, 2, 1}, avg_step{*this, "avg_step", 2};
    nn::LayerNorm layer_norm{*this, "layer_norm", {4}, 0.5};
    nn::RMSNorm rms_norm{*this, "rms_norm", {4}, 0.5};
    nn::GroupNorm group_norm{*this, "group_norm", 1, 2, 0.5};
    nn::Embedding embedding{*this, "embedding", 5, 3};
    nn::ReLU relu{*this, "relu"};
    nn::Tanh tanh{*this, "tanh"};
    nn::GELU gelu{*this, "gelu"};
    nn::SiLU silu{*this, "silu"};
    nn::Flatten flatten{*this, "flatten"};
  } net;
  const Tensor x = random_doubles({3, 4}, 1), image = random_doubles({2, 2, 6, 4}, 2),
               line = random_doubles({2, 2, 7}, 3), index = HostArray::of<std::int64_t>({2, 2}, {4, 0, 1, 4});
  for (const Parameter& norm : {net.layer_norm.bias, net.group_norm.bias, net.group_norm.weight, net.rms_norm.weight})
    world.write(norm, random_doubles(norm.shape(), 7));
  const auto [l, p, c, u, d, e] = std::tie(net.linear, net.plain, net.conv, net.unpadded, net.line, net.line_plain);
  const std::vector<std::tuple<const char*, Tensor, Tensor>> cases = {
      {"Linear", l(x), linear(x, l.weight, l.bias)},
      {"Linear without bias", p(x), linear(x, p.weight)},
      {"Conv2d", c(image), conv2d(image, c.weight, c.bias, {.stride = {2, 2}, .padding = {1, 1}})},
      {"Conv2d without options", u(image), conv2d(image, u.weight, u.bias)},
      {"Conv1d", d(line), conv1d(line, d.weight, d.bias, {.stride = 2, .padding = 1})},
      {"Conv1d without bias", e(line), conv1d(line, e.weight)},
      {"MaxPool2d", net.max(image), max_pool(image, 3, 2, 1)},
      {"MaxPool2d without options", net.max_step(image), max_pool(image, 2, 2, 0)},
      {"AvgPool2d", net.avg(image), avg_pool(image, 3, 2, 1)},
      {"AvgPool2d without options", net.avg_step(image), avg_pool(image, 2, 2, 0)},
      {"LayerNorm", net.layer_norm(x), layer_norm(x, net.layer_norm.weight, net.layer_norm.bias, 0.5)},
      {"RMSNorm", net.rms_norm(x), rms_norm(x, net.rms_norm.weight, 0.5)},
      {"GroupNorm", net.group_norm(image), group_norm(image, 1, net.group_norm.weight, net.group_norm.bias, 0.5)},
      {"Embedding", net.embedding(index), gather(net.embedding.weight, index)},
      {"ReLU", net.relu(x), relu(x)},
      {"Tanh", net.tanh(x), tanh(x)},
      {"GELU", net.gelu(x), gelu(x)},
      {"SiLU", net.silu(x), silu(x)},
      {"Flatten", net.flatten(image), reshape(image, {2, 48})},
  };
  for (const auto& [name, result, expected] : cases)
    expect_values(name, result, expected.type, numbers_of(expected.read()), 1e-12);
}

TEST(Layers, AttentionUsesEachOption) {
  World world;
  Interactive scope(world.mesh());
  const Tensor x = random_doubles({2, 5, 12}, 1), mask = random_doubles({5, 5}, 2);
  for (const nn::AttentionShape& shape :
       {nn::AttentionShape{},
        nn::AttentionShape{.causal = true},
        {.kv_heads = 1},
        {.rotary = true},
        {.kv_heads = 3, .causal = true, .rotary = true, .rotary_base = 50, .bias = false}}) {
    struct Net : Root {
      explicit Net(const nn::AttentionShape& s) : attention(*this, "attention", 12, 3, s) {}
      nn::MultiHeadAttention attention;
    } net(shape);
    const auto heads = [&](const nn::Linear& layer, std::int64_t count) {
      const Tensor y = shape.bias ? linear(x, layer.weight, layer.bias) : linear(x, layer.weight);
      return transpose(reshape(y, {2, 5, count, 4}), {0, 2, 1, 3});
    };
    const std::int64_t kv_heads = shape.kv_heads == 0 ? 3 : shape.kv_heads;
    Tensor q = heads(net.attention.query, 3), k = heads(net.attention.key, kv_heads),
           v = heads(net.attention.value, kv_heads);
    if (shape.rotary) q = rotary(q, {.base = shape.rotary_base}), k = rotary(k, {.base = shape.rotary_base});
    const auto joined = [&](const Tensor& y) {
      const Tensor rows = reshape(transpose(y, {0, 2, 1, 3}), {2, 5, 12});
      const nn::Linear& out = net.attention.out;
      return numbers_of((shape.bias ? linear(rows, out.weight, out.bias) : linear(rows, out.weight)).read());
    };
    const AttentionOptions options{.causal = shape.causal};
    expect_values("attention", net.attention(x), x.type, joined(scaled_dot_product_attention(q, k, v, options)), 1e-12);
    expect_values("masked attention", net.attention(x, mask), x.type,
                  joined(scaled_dot_product_attention(q, k, v, mask, options)), 1e-12);
  }
}

TEST(Layers, DropoutOfAttentionDropsElementsOfTheOutput) {
  World world;
  struct Net : Root {
    nn::MultiHeadAttention attention{*this, "attention", 8, 2, {.dropout = 0.5}};
  } net;
  const HostArray x = random_doubles({4, 8, 8}, 1);
  const auto zeros = [&](bool train) {
    const HostArray y =
        compile(world.mesh(), [&](Tensor t) { return net.attention(t); }, {.train = train})(x).value().read();
    return std::count(y.data<double>().begin(), y.data<double>().end(), 0.0);
  };
  EXPECT_EQ(zeros(false), 0);
  EXPECT_GT(zeros(true), 64);
  EXPECT_LT(zeros(true), 192);
}

TEST(Layers, BatchNormUpdatesItsStatisticsOnceForEachMicroBatch) {
  for (const int parts : {1, 2, 4})
    for (const double momentum : {0.1, 0.5, 1.0}) {
      World world;
      struct Net : Root {
        explicit Net(double momentum) : norm(*this, "norm", 2, {.momentum = momentum, .eps = 0.25}) {}
        nn::BatchNorm norm;
      } net(momentum);
      const HostArray x = random_doubles({8, 2, 3}, 1);
      const auto train = compile(world.mesh(), [&](Tensor t) { return net.norm(t); }, {.microbatches = parts});
      const auto infer = compile(world.mesh(), [&](Tensor t) { return net.norm(t); }, {.train = false});
      const std::vector<double> trained = numbers_of(train(x).value().read());
      std::vector<double> expected(48), means(2, 0), variances(2, 1);
      const int rows = 8 / parts;
      for (int part = 0; part < parts; ++part)
        for (int c = 0; c < 2; ++c) {
          const auto each = [&](const std::function<void(std::size_t, double)>& use) {
            for (int n = part * rows; n < (part + 1) * rows; ++n)
              for (int k = 0; k < 3; ++k) {
                const auto i = static_cast<std::size_t>((n * 2 + c) * 3 + k);
                use(i, x.data<double>()[i]);
              }
          };
          double mean = 0, variance = 0;
          each([&](std::size_t, double value) { mean += value / (rows * 3); });
          each([&](std::size_t, double value) { variance += (value - mean) * (value - mean) / (rows * 3); });
          each([&](std::size_t i, double value) { expected[i] = (value - mean) / std::sqrt(variance + 0.25); });
          const auto channel = static_cast<std::size_t>(c);
          means[channel] += momentum * (mean - means[channel]);
          variances[channel] += momentum * (variance * rows * 3 / (rows * 3 - 1) - variances[channel]);
        }
      const std::string label = cat(parts, " parts, momentum ", momentum);
      expect_numbers(label, trained, expected, 1e-12);
      expect_numbers(label + ", mean", numbers_of(world.read("norm.running_mean")), means, 1e-12);
      expect_numbers(label + ", variance", numbers_of(world.read("norm.running_var")), variances, 1e-12);
      EXPECT_EQ(world.read("norm.num_batches_tracked").data<std::int64_t>()[0], parts);
      const std::vector<double> inferred = numbers_of(infer(x).value().read());
      for (std::size_t i = 0; i < 48; ++i) {
        const std::size_t c = i / 3 % 2;
        EXPECT_NEAR(inferred[i], (x.data<double>()[i] - means[c]) / std::sqrt(variances[c] + 0.25), 1e-12) << label;
      }
      EXPECT_EQ(world.read("norm.num_batches_tracked").data<std::int64_t>()[0], parts) << "inference must not count";
    }
}

TEST(BatchParts, AValueHasThePartsOfTheBatchThatItDependsOn) {
  World world;
  std::vector<std::int64_t> parts;
  const Parameter w("w", {DType::f64, {4, 3}}, constant_init(1));
  const auto f = compile(
      world.mesh(),
      [&](Tensor x, Tensor y) {
        const Tensor scalar = sum(x), three = slice(x, {0, 0}, {3, 3}), six = concat({three, w * 1, x * 1, x * 1});
        parts = {batch_parts(x),
                 batch_parts(y),
                 batch_parts(x * 2 + w),
                 batch_parts(w),
                 batch_parts(scalar),
                 batch_parts(three),
                 batch_parts(matmul(y, transpose(x))),
                 batch_parts(six)};
        return x * 1;
      },
      {.microbatches = 2, .unbatched = {1}});
  f.compile({{DType::f64, {4, 3}}, {DType::f64, {4, 3}}});
  EXPECT_EQ(parts, (std::vector<std::int64_t>{2, 1, 2, 1, 1, 1, 2, 1}));
}

TEST(Layers, ErrorsNameTheLayerAndTheNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto gru = [](nn::Module& m, nn::RecurrentShape shape, std::int64_t in) { nn::GRU(m, "n", in, 4, shape); };
  const std::vector<std::pair<std::string, std::function<void(nn::Module&)>>> cases = {
      {"Linear 'n': in and out must be at least 1, got 0 and 2", [](auto& m) { nn::Linear(m, "n", 0, 2); }},
      {"Conv2d 'n': in, out and kernel must be at least 1, got 1, 0 and 3",
       [](auto& m) { nn::Conv2d(m, "n", 1, 0, 3); }},
      {"Conv2d 'n': stride must be at least 1 and padding at least 0, got 1 and -1",
       [](auto& m) { nn::Conv2d(m, "n", 1, 1, 3, {.padding = -1}); }},
      {"Conv1d 'n': in, out and kernel must be at least 1, got 1, 1 and 0",
       [](auto& m) { nn::Conv1d(m, "n", 1, 1, 0); }},
      {"Conv1d 'n': in, out and kernel must be at least 1, got 0, 1 and 1",
       [](auto& m) { nn::Conv1d(m, "n", 0, 1, 1); }},
      {"Conv1d 'n': stride must be at least 1 and padding at least 0, got 0 and 0",
       [](auto& m) { nn::Conv1d(m, "n", 1, 1, 3, {.stride = 0}); }},
      {"ConvTranspose2d 'n': in, out and kernel must be at least 1, got 1, 1 and 0",
       [](auto& m) { nn::ConvTranspose2d(m, "n", 1, 1, 0); }},
      {"ConvTranspose2d 'n': 2 groups do not divide 4 and 3 channels",
       [](auto& m) { nn::ConvTranspose2d(m, "n", 4, 3, 2, {.groups = 2}); }},
      {"MaxPool2d 'n': kernel must be at least 1, and stride and padding at least 0; got kernel 2, stride -1, padding "
       "0",
       [](auto& m) { nn::MaxPool2d(m, "n", 2, -1); }},
      {"AvgPool2d 'n': kernel must be at least 1, and stride and padding at least 0; got kernel 2, stride 1, padding "
       "-1",
       [](auto& m) { nn::AvgPool2d(m, "n", 2, 1, -1); }},
      {"Embedding 'n': count and width must be at least 1, got 4 and 0", [](auto& m) { nn::Embedding(m, "n", 4, 0); }},
      {"Embedding 'n': padding row -5 does not exist; there are 4 rows",
       [](auto& m) { nn::Embedding(m, "n", 4, 2, -5); }},
      {"LayerNorm 'n': shape must list the sizes of the last dimensions, each at least 1; got [2, 0]",
       [](auto& m) {
         nn::LayerNorm(m, "n", {2, 0});
       }},
      {"LayerNorm 'n': eps is nan; it must be finite and at least 0",
       [&](auto& m) { nn::LayerNorm(m, "n", {2}, nan); }},
      {"RMSNorm 'n': shape must list the sizes of the last dimensions, each at least 1; got []",
       [](auto& m) { nn::RMSNorm(m, "n", {}); }},
      {"BatchNorm 'n': channels must be at least 1, got 0", [](auto& m) { nn::BatchNorm(m, "n", 0); }},
      {"BatchNorm 'n': eps is -1.0; it must be finite and at least 0",
       [](auto& m) { nn::BatchNorm(m, "n", 2, {.eps = -1}); }},
      {"BatchNorm 'n': momentum must be in (0, 1], got 0.0",
       [](auto& m) { nn::BatchNorm(m, "n", 2, {.momentum = 0}); }},
      {"BatchNorm 'n': momentum must be in (0, 1], got 1.5",
       [](auto& m) { nn::BatchNorm(m, "n", 2, {.momentum = 1.5}); }},
      {"GroupNorm 'n': channels must be at least 1, got 0", [](auto& m) { nn::GroupNorm(m, "n", 1, 0); }},
      {"GroupNorm 'n': 0 groups do not divide 4 channels", [](auto& m) { nn::GroupNorm(m, "n", 0, 4); }},
      {"GroupNorm 'n': 3 groups do not divide 4 channels", [](auto& m) { nn::GroupNorm(m, "n", 3, 4); }},
      {"MultiHeadAttention 'n': 0 heads do not divide a width of 4",
       [](auto& m) { nn::MultiHeadAttention(m, "n", 4, 0); }},
      {"MultiHeadAttention 'n': -1 key heads do not divide 2 query heads",
       [](auto& m) { nn::MultiHeadAttention(m, "n", 4, 2, {.kv_heads = -1}); }},
      {"MultiHeadAttention 'n': the dropout probability must be in [0, 1), got 1.0",
       [](auto& m) { nn::MultiHeadAttention(m, "n", 4, 2, {.dropout = 1}); }},
      {"MultiHeadAttention: x must have shape [n, t, width], got f32[2, 4]",
       [](auto& m) {
         nn::MultiHeadAttention(m, "n", 4, 2)(HostArray(TensorType{DType::f32, {2, 4}}));
       }},
      {"GRU 'n': in, width and layers must be at least 1, got 0, 4 and 1", [&](auto& m) { gru(m, {}, 0); }},
      {"Sequential 'n' has no layers", [](auto& m) { nn::Sequential(m, "n")(Tensor(1.0f)); }},
      {"a sub-module of '' is named ''; names must not be empty or contain a dot", [](auto& m) { nn::ReLU(m, ""); }},
      {"two parameters are named 'w'",
       [](auto& m) {
         m.make_parameter("w", {1}, constant_init(0));
         m.make_buffer("w", {DType::f32, {1}}, constant_init(0));
       }},
      {"unknown parameter 'n.weigth'; there are 2: n.weight, n.bias",
       [](auto& m) {
         nn::Linear layer(m, "n", 1, 1);
         m.parameter("n.weigth");
       }},
      {"uniform_init: bound must be finite and at least 0, got -1.0", [](auto&) { uniform_init(-1); }},
      {"normal_init: deviation must be finite and at least 0, got nan", [&](auto&) { normal_init(nan); }},
      {"value_init: the array is uninitialised", [](auto&) { value_init(HostArray()); }},
      {"zero_row_init: the initialiser is empty", [](auto&) { zero_row_init(nullptr, 0); }},
      {"zero_row_init: f32[2] has no row 2",
       [](auto& m) { World().first_values({m.make_parameter("w", {2}, zero_row_init(constant_init(1), 2))}); }},
  };
  for (const auto& [text, make] : cases) {
    struct Net : nn::Module {
    } net;
    const std::string error = error_of([&, &make = make] { make(net); });
    EXPECT_EQ(error.substr(0, error.find("\n  at ")), text);
  }
}

}  // namespace
}  // namespace karez
