// One training step on one device, or on a mesh: serves "run N" lines on standard input with the seconds of N steps (see train_step.py).
#include <chrono>
#include <cstdio>
#include <random>
#include <string>

#include "bench/models.h"

using namespace karez;

namespace {

template <class Model> void serve(const Options& options) {
  std::int64_t batch = options.integer("batch");
  Mesh shape = Mesh::parse(options.text("mesh"));
  World world({.devices = shape.size(), .workers = static_cast<int>(options.integer("threads")), .team = static_cast<int>(options.integer("team"))});
  DeviceMesh mesh = world.mesh(shape.axes);
  Model net;
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(mesh, [&](Tensor x, Tensor y) {
    Tensor loss = cross_entropy(net(x), y);
    adam.step(grad(loss, net.parameters()));
    return loss;
  });
  // Several batches of random images: no step sees zeros, and no batch stays in a cache by itself.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<HostArray> images, labels;
  for (int i = 0; i < 8; ++i) {
    HostArray x(TensorType{DType::f32, {batch, 1, 28, 28}}), y(TensorType{DType::i32, {batch}});
    for (float& value : x.data<float>()) value = normal(random);
    for (std::int32_t& value : y.data<std::int32_t>()) value = static_cast<std::int32_t>(random() % 10);
    images.push_back(x);
    labels.push_back(y);
  }
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    int steps = std::atoi(line + 4);
    auto begin = std::chrono::steady_clock::now();
    double last = 0;
    for (int i = 0; i < steps; ++i) last = step(images[static_cast<std::size_t>(i % 8)], labels[static_cast<std::size_t>(i % 8)]).item();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%.9f %.6f\n", seconds, last);
    std::fflush(stdout);
  }
  if (!options.text("plan").empty()) std::fprintf(stderr, "%s\n", step.plan_text().c_str());
}

}  // namespace

int main(int count, char** words) {
  try {
    Options options({{"model", "cnn", "cnn or mlp"},
                     {"batch", "64", "images a step"},
                     {"mesh", "", "data=2,model=2; none: one device"},
                     {"threads", "0", "worker threads; 0: as many as are worth it"},
                     {"team", "0", "threads of one kernel; 0: the cores a worker has for itself"},
                     {"plan", "", "anything: print the plan at the end"}});
    if (!options.read(count, words)) return std::printf("%s", options.help().c_str()), 0;
    options.one_of("model", {"cnn", "mlp"}) == "cnn" ? serve<bench::Cnn>(options) : serve<bench::Mlp>(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_step: %s\n", error.what());
    return 1;
  }
  return 0;
}
