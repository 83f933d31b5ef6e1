// Configures train_step's models on meshes, in pipeline stages and in micro-batches.
#pragma once

#include <string>
#include <vector>

#include "bench/models.h"
#include "bench/namespace.h"

namespace karez::bench {

struct ParallelConfig {
  const char* axes;
  int stages = 1, microbatches = 1;
};

inline std::vector<std::string> layer_names(const Mlp&) { return {"fc1", "fc2", "fc3", "fc4"}; }
inline std::vector<std::string> layer_names(const Cnn&) { return {"conv1", "conv2", "fc1", "fc2"}; }
inline std::vector<std::string> layer_names(const Gpt&) { return {"block0", "block1", "block2", "block3"}; }

// Distributes the layers evenly over the stages.
inline FunctionOptions function_options(const ParallelConfig& s, const std::vector<std::string>& parts) {
  FunctionOptions options{.microbatches = s.microbatches};
  for (std::size_t i = 0; s.stages > 1 && i < parts.size(); ++i)
    options.placements.push_back({parts[i], static_cast<int>(i * static_cast<std::size_t>(s.stages) / parts.size())});
  return options;
}

// A step of Adam on cross-entropy, which is planned for an input type but not run.
template <class Model> struct PlannedStep {
  World world;
  Model net;
  optim::Adam adam{net.parameters(), {.lr = 2e-3}};
  Function step;

  PlannedStep(const ParallelConfig& s, const TensorType& input, std::int64_t labels)
      : world({.devices = Mesh::parse(s.axes).size()}),
        step(compile(
            world.mesh(s.axes),
            [this](Tensor in, Tensor targets) {
              Tensor loss = cross_entropy(net(in), targets);
              adam.step(grad(loss, net.parameters()));
              return loss;
            },
            function_options(s, layer_names(net)))) {
    step.compile({input, {DType::i32, {labels}}});
  }
  PlannedStep(const PlannedStep&) = delete;
};

}  // namespace karez::bench
