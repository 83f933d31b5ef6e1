// Tests of layers over channels against loops on every mesh. Batch statistics include all rows of the batch, and
// running statistics are saved with the model under PyTorch's names.
#include <unistd.h>

#include <filesystem>

#include "tests/expect_function.h"

namespace karez::tests {
namespace {
using ::testing::HasSubstr;

constexpr std::size_t batch = 5, channels = 4, pixels = 6;  // [5, 4, 2, 3]
const Shape image{5, 4, 2, 3};

// The mean and variance of a group of elements.
struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(const Numbers& x, const std::vector<std::size_t>& group_positions) {
  Moments out;
  for (std::size_t p : group_positions) out.mean += x[p] / static_cast<double>(group_positions.size());
  for (std::size_t p : group_positions)
    out.variance += (x[p] - out.mean) * (x[p] - out.mean) / static_cast<double>(group_positions.size());
  return out;
}
std::size_t place(std::size_t n, std::size_t c, std::size_t p) { return (n * channels + c) * pixels + p; }
std::vector<std::size_t> of_channel(std::size_t c) {
  std::vector<std::size_t> out;
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t p = 0; p < pixels; ++p) out.push_back(place(n, c, p));
  return out;
}

TEST(BatchNorm, TheLayerNormalisesOverAllRowsOfTheBatchOnEveryMesh) {
  const HostArray x = random_array(image, 1), w = random_array({4}, 2), shift = random_array({4}, 3);
  const Numbers n = numbers_of(x), scale = numbers_of(w), bias = numbers_of(shift);
  Numbers expected(n.size());
  for (std::size_t c = 0; c < channels; ++c) {
    const Moments m = moments(n, of_channel(c));
    for (std::size_t p : of_channel(c))
      expected[p] = (n[p] - m.mean) / std::sqrt(m.variance + 1e-3) * scale[c] + bias[c];
  }
  expect_function(
      "batch_norm", [](auto in) { return batch_norm(in[0], in[1], in[2], 1e-3); }, {x, w, shift}, expected);
  EXPECT_THAT(error_of([](auto in) { return std::vector{batch_norm(in[0], in[1], in[1])}; },
                       {array({1, 3}, {1, 2, 3}), array({3}, {1, 1, 1})}),
              HasSubstr("batch_norm: f64[1, 3] has 1 elements per channel"));
  EXPECT_THAT(
      error_of([](auto in) { return std::vector{batch_norm(in[0], in[1], in[1])}; }, {x, array({3}, {1, 1, 1})}),
      HasSubstr(
          "batch_norm: an operand with one element per channel must be f64[4] for x f64[5, 4, 2, 3], got f64[3]"));
}

TEST(GroupNorm, TheLayerNormalisesGroupsOfChannels) {
  const HostArray x = random_array(image, 4), w = random_array({4}, 5), shift = random_array({4}, 6);
  const Numbers n = numbers_of(x), scale = numbers_of(w), bias = numbers_of(shift);
  for (std::size_t groups : {1u, 2u, 4u}) {
    Numbers expected(n.size());
    const std::size_t group_channels = channels / groups;
    for (std::size_t r = 0; r < batch; ++r)
      for (std::size_t g = 0; g < groups; ++g) {
        std::vector<std::size_t> group_positions;
        for (std::size_t c = g * group_channels; c < (g + 1) * group_channels; ++c)
          for (std::size_t p = 0; p < pixels; ++p) group_positions.push_back(place(r, c, p));
        const Moments m = moments(n, group_positions);
        for (std::size_t p : group_positions) {
          const std::size_t c = p / pixels % channels;
          expected[p] = (n[p] - m.mean) / std::sqrt(m.variance + 1e-5) * scale[c] + bias[c];
        }
      }
    expect_function(
        cat("group_norm of ", groups),
        [&](auto in) { return group_norm(in[0], static_cast<std::int64_t>(groups), in[1], in[2]); }, {x, w, shift},
        expected);
  }
  EXPECT_THAT(error_of([](auto in) { return std::vector{group_norm(in[0], 3, in[1], in[1])}; }, {x, w}),
              HasSubstr("3 groups do not divide"));
}

TEST(Conv1d, TheResultMatchesTheSumOfProductsAlongOneDimension) {
  const std::size_t length = 9, taps = 3, outs = 2, ins = 3, rows = 2;
  const HostArray x = random_array({2, 3, 9}, 7), w = random_array({2, 3, 3}, 8);
  const Numbers n = numbers_of(x), k = numbers_of(w);
  for (const auto& [stride, padding, dilation] : {std::array{1, 0, 1}, std::array{2, 1, 1}, std::array{1, 2, 2}}) {
    const std::size_t size =
        (length + 2 * static_cast<std::size_t>(padding) - static_cast<std::size_t>(dilation) * (taps - 1) - 1) /
            static_cast<std::size_t>(stride) +
        1;
    Numbers expected;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t o = 0; o < outs; ++o)
        for (std::size_t i = 0; i < size; ++i) {
          double sum = 0;
          for (std::size_t c = 0; c < ins; ++c)
            for (std::size_t t = 0; t < taps; ++t) {
              const int from = static_cast<int>(i) * stride + static_cast<int>(t) * dilation - padding;
              if (from < 0 || from >= static_cast<int>(length)) continue;
              sum += n[(r * ins + c) * length + static_cast<std::size_t>(from)] * k[(o * ins + c) * taps + t];
            }
          expected.push_back(sum);
        }
    expect_function(
        cat("conv1d by ", stride),
        [&, s = stride, p = padding, d = dilation](auto in) {
          return conv1d(in[0], in[1], {s, p, d});
        },
        {x, w}, expected);
  }
}

// ---- the modules

struct Net : nn::Module {
  Net() : Module(DType::f64) {}
  nn::Conv1d conv{*this, "conv", 2, 4, 3, {.padding = 1}};
  nn::BatchNorm norm{*this, "norm", 4, {.momentum = 0.2}};
  nn::GroupNorm groups{*this, "groups", 2, 4};
  nn::Linear fc{*this, "fc", 4 * 6, 3};
  Tensor operator()(Tensor x) { return fc(flatten(tanh(groups(tanh(norm(conv(x))))))); }
};
HostArray batch_of(unsigned step) { return random_array({7, 2, 6}, 100 + step); }
HostArray labels_of(unsigned step) {
  HostArray out(TensorType{DType::i64, {7}});
  for (std::size_t i = 0; i < 7; ++i) out.data<std::int64_t>()[i] = static_cast<std::int64_t>((i * 2 + step) % 3);
  return out;
}

struct TrainingResult {
  std::vector<double> losses;
  Numbers mean, variance, evaluated;
  std::int64_t count = 0;
};
TrainingResult trained(const std::string& mesh, const FunctionOptions& options = {}) {
  World world({.devices = Mesh::parse(mesh).size(), .seed = 6});
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  auto step = compile(
      world.mesh(mesh),
      [&](Tensor x, Tensor y) {
        Tensor loss = cross_entropy(net(x), y);
        sgd.step(grad(loss, net.parameters()));
        return loss;
      },
      options);
  auto eval = compile(world.mesh(mesh), [&](Tensor x) { return net(x); }, {.train = false});
  TrainingResult out;
  for (unsigned s = 0; s < 6; ++s) out.losses.push_back(step(batch_of(s % 2), labels_of(s % 2)).item());
  out.evaluated = numbers_of(eval(batch_of(9)).value().read());
  out.mean = numbers_of(world.read("norm.running_mean"));
  out.variance = numbers_of(world.read("norm.running_var"));
  out.count = world.read("norm.num_batches_tracked").data<std::int64_t>()[0];
  return out;
}

TEST(BatchNorm, TrainingGivesTheSameResultsOnEveryMeshWithin1e10) {
  const TrainingResult one = trained("");
  EXPECT_LT(one.losses.back(), one.losses[1]);
  EXPECT_EQ(one.count, 6);
  const auto expect_same = [&](const TrainingResult& actual, const std::string& label) {
    expect_near(actual.losses, one.losses, label, 1e-10);
    expect_near(actual.mean, one.mean, label, 1e-10);
    expect_near(actual.variance, one.variance, label, 1e-10);
    expect_near(actual.evaluated, one.evaluated, label, 1e-10);
    EXPECT_EQ(actual.count, 6);
  };
  for (const char* mesh : {"data=3", "model=2", "data=2,model=2"}) expect_same(trained(mesh), mesh);
  expect_same(trained("data=2", {.remat = {"norm", "groups"}}), "recomputed");
}

TEST(BatchNorm, RunningStatisticsFollowTheBatchAndAreUsedAfterTraining) {
  struct NormOnly : nn::Module {
    NormOnly() : Module(DType::f64) {}
    nn::BatchNorm norm{*this, "norm", 4, {.momentum = 0.3, .eps = 1e-4}};
  } net;
  EXPECT_EQ(net.parameters().size(), 2u);
  EXPECT_EQ(net.buffers().size(), 3u);
  EXPECT_EQ(net.state().size(), 5u);
  World world({.devices = 2});
  auto train = compile(world.mesh("data=2"), [&](Tensor x) { return net.norm(x); });
  auto eval = compile(world.mesh("data=2"), [&](Tensor x) { return net.norm(x); }, {.train = false});
  std::vector<Moments> running(channels, Moments{0, 1});
  for (unsigned step = 0; step < 3; ++step) {
    const HostArray x = random_array(image, 20 + step);
    const Numbers n = numbers_of(x);
    train(x).wait();
    for (std::size_t c = 0; c < channels; ++c) {
      const Moments m = moments(n, of_channel(c));
      const double count = batch * pixels;
      running[c].mean = 0.7 * running[c].mean + 0.3 * m.mean;
      running[c].variance = 0.7 * running[c].variance + 0.3 * m.variance * count / (count - 1);
    }
    Numbers means, variances;
    for (const Moments& m : running) means.push_back(m.mean), variances.push_back(m.variance);
    expect_near(numbers_of(world.read("norm.running_mean")), means, "running mean");
    expect_near(numbers_of(world.read("norm.running_var")), variances, "running variance");
  }
  const HostArray x = random_array(image, 50);
  const Numbers n = numbers_of(x);
  Numbers expected(n.size());
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t p : of_channel(c)) expected[p] = (n[p] - running[c].mean) / std::sqrt(running[c].variance + 1e-4);
  expect_near(numbers_of(eval(x).value().read()), expected, "evaluation after training");
  EXPECT_EQ(world.read(net.parameter("norm.num_batches_tracked")).data<std::int64_t>()[0], 3)
      << "evaluation must not count batches";
}

// A saved file contains the running statistics under PyTorch's names.
TEST(BatchNorm, RunningStatisticsAreSavedWithTheModel) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / cat("karez_channels_", ::getpid(), ".safetensors")).string();
  World world, second_world({.devices = 2, .seed = 9});
  Net net, second;
  compile(world.mesh(), [&](Tensor x) { return net(x); })(batch_of(1)).wait();
  auto eval = compile(world.mesh(), [&](Tensor x) { return net(x); }, {.train = false});
  world.save(path);
  second_world.load(path, {.parameters = second.state()});
  std::filesystem::remove(path);
  EXPECT_THAT(second_world.waiting(),
              testing::IsSupersetOf({"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}));
  auto reloaded = compile(second_world.mesh(), [&](Tensor x) { return second(x); }, {.train = false});
  EXPECT_EQ(numbers_of(reloaded(batch_of(2)).value().read()), numbers_of(eval(batch_of(2)).value().read()));
}

TEST(Channels, ModulesRejectInvalidArguments) {
  const auto error = [](auto&& make) {
    struct Root : nn::Module {
    } root;
    try {
      make(root);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("no error");
  };
  EXPECT_EQ(error([](auto& root) { nn::GroupNorm(root, "g", 3, 4); }),
            "GroupNorm 'g': 3 groups do not divide 4 channels");
  EXPECT_EQ(error([](auto& root) { nn::BatchNorm(root, "b", 4, {.momentum = 0}); }),
            "BatchNorm 'b': momentum must be in (0, 1], got 0.0");
  EXPECT_EQ(error([](auto& root) { nn::BatchNorm(root, "b", 0); }),
            "BatchNorm 'b': channels must be at least 1, got 0");
  EXPECT_EQ(error([](auto& root) { nn::Conv1d(root, "c", 1, 1, 0); }),
            "Conv1d 'c': in, out and kernel must be at least 1, got 1, 1 and 0");
}

}  // namespace
}  // namespace karez::tests
