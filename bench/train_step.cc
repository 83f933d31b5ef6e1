// Runs a training step on one device, on a mesh, or as one rank of several. Answers "run N" lines on standard input
// with the seconds of N steps (see train_step.py).
#include <chrono>
#include <cstdio>
#include <random>
#include <string>

#include "bench/models.h"

using namespace karez;

namespace {

// Several batches of random numbers, so that no batch is zero or stays in a cache.
constexpr std::size_t batches = 8;
struct Data {
  std::vector<HostArray> x, y;
};

HostArray normal_numbers(std::mt19937& random, Shape shape) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  std::normal_distribution<float> normal;
  for (float& value : out.data<float>()) value = normal(random);
  return out;
}
HostArray random_integers(std::mt19937& random, Shape shape, std::uint32_t upper_bound) {
  HostArray out(TensorType{DType::i32, std::move(shape)});
  for (std::int32_t& value : out.data<std::int32_t>()) value = static_cast<std::int32_t>(random() % upper_bound);
  return out;
}

World make_world(const Options& options) {
  const auto device_count = static_cast<int>(options.integer("devices"));
  return World({.devices = device_count > 0 ? device_count : Mesh::parse(options.text("mesh")).size(),
                .workers = static_cast<int>(options.integer("threads")),
                .team = static_cast<int>(options.integer("team")),
                .cost_file = options.text("costs")});
}

void serve(const Options& options, const Function& step, const Data& data) {
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    int steps = std::atoi(line + 4);
    auto begin = std::chrono::steady_clock::now();
    double loss = 0;
    for (int i = 0; i < steps; ++i) {
      const auto batch = static_cast<std::size_t>(i) % batches;
      loss = step(data.x[batch], data.y[batch]).item();
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%.9f %.6f\n", seconds, loss);
    std::fflush(stdout);
  }
  if (!options.text("plan").empty()) std::fprintf(stderr, "%s\n%s\n", step.plan_text().c_str(), step.summary().c_str());
}

// Runs steps of Adam on cross-entropy.
template <class Model, class... Args> void train(const Options& options, const Data& data, const Args&... args) {
  World world = make_world(options);
  Model net(args...);
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  serve(options,
        compile(world.mesh(Mesh::parse(options.text("mesh")).axes),
                [&](Tensor x, Tensor y) {
                  Tensor loss = cross_entropy(net(x), y);
                  adam.step(grad(loss, net.parameters()));
                  return loss;
                }),
        data);
}

// Runs only the forward and backward pass, with the loss and every gradient as separate outputs.
void differentiate(const Options& options, const Data& data) {
  World world = make_world(options);
  bench::SmallLayers net;
  serve(options,
        compile(world.mesh(Mesh::parse(options.text("mesh")).axes),
                [&](Tensor x, Tensor y) {
                  Tensor residual = net(x) - y;
                  std::vector<Tensor> out{mean(residual * residual)};
                  for (Tensor& gradient : grad(out[0], net.parameters())) out.push_back(gradient);
                  return out;
                }),
        data);
}

}  // namespace

int main(int count, char** words) {
  try {
    Options options({{"model", "cnn",
                      "cnn, mlp, resnet, gpt, wide (a gpt of width 512), or small (50 layers of width 16, without an "
                      "update)"},
                     {"batch", "64", "images, or sequences of 64 tokens (wide: 128), per step"},
                     {"mesh", "", "for example data=2,model=2; empty: one device"},
                     {"devices", "0", "devices of this process, if several processes share the mesh; 0: all devices"},
                     {"threads", "0", "worker threads; 0: automatic"},
                     {"team", "0", "threads of one kernel; 0: the cores of a worker"},
                     {"costs", "", "file of a cost table for the planner, written by karez doctor"},
                     {"plan", "", "if not empty, print the plan at the end"}});
    if (!options.read(count, words)) return std::printf("%s", options.help().c_str()), 0;
    const std::string model = options.one_of("model", {"cnn", "mlp", "resnet", "gpt", "wide", "small"});
    const std::int64_t batch = options.integer("batch");
    const bool is_gpt = model == "gpt" || model == "wide";
    const bench::GptShape gpt = model == "wide" ? bench::wide_gpt : bench::GptShape{};
    std::mt19937 random(1);
    Data data;
    for (std::size_t i = 0; i < batches; ++i) {
      data.x.push_back(is_gpt              ? random_integers(random, {batch, gpt.length}, 65)
                       : model == "small"  ? normal_numbers(random, {batch, 16})
                       : model == "resnet" ? normal_numbers(random, {batch, 3, 64, 64})
                                           : normal_numbers(random, {batch, 1, 28, 28}));
      data.y.push_back(is_gpt             ? random_integers(random, {batch * gpt.length}, 65)
                       : model == "small" ? normal_numbers(random, {batch, 16})
                                          : random_integers(random, {batch}, 10));
    }
    if (model == "cnn") train<bench::Cnn>(options, data);
    if (model == "mlp") train<bench::Mlp>(options, data);
    if (model == "resnet") train<bench::ResNet18>(options, data);
    if (is_gpt) train<bench::Gpt>(options, data, gpt);
    if (model == "small") differentiate(options, data);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_step: %s\n", error.what());
    return 1;
  }
  return 0;
}
