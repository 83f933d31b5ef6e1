// train_step's models on meshes, in pipeline stages and in micro-batches.
#pragma once

#include <string>
#include <vector>

#include "bench/models.h"

namespace karez::bench {

struct Setting {
  const char* axes;
  int stages = 1, microbatches = 1;
};

inline std::vector<std::string> parts_of(const Mlp&) { return {"fc1", "fc2", "fc3", "fc4"}; }
inline std::vector<std::string> parts_of(const Cnn&) { return {"conv1", "conv2", "fc1", "fc2"}; }
inline std::vector<std::string> parts_of(const Gpt&) { return {"block0", "block1", "block2", "block3"}; }

// The parts in equal shares on the stages.
inline FunctionOptions function_options(const Setting& s, const std::vector<std::string>& parts) {
  FunctionOptions options{.microbatches = s.microbatches};
  for (std::size_t i = 0; s.stages > 1 && i < parts.size(); ++i)
    options.placements.push_back({parts[i], static_cast<int>(i * static_cast<std::size_t>(s.stages) / parts.size())});
  return options;
}

}  // namespace karez::bench
