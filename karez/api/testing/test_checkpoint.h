// For tests of checkpoints: a fixture that provides a temporary folder and writes files, and a model with its training.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/base/text.h"
#include "karez/karez.h"

namespace karez {

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint()
      : folder_(std::filesystem::path(::testing::TempDir()) / ("karez_checkpoint_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Checkpoint() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t count_files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

  // An f32 tensor with the elements first, first + 1, ...
  struct FileTensor {
    std::string name;
    Shape shape;
    float first = 1;
  };
  // Writes a file of these tensors and returns its path.
  std::string write_file(const std::string& file, const std::vector<FileTensor>& tensors) const {
    std::string header = "{", data;
    for (const FileTensor& tensor : tensors) {
      const std::size_t begin = data.size();
      for (std::int64_t i = 0; i < count_of(tensor.shape); ++i) {
        const float value = tensor.first + static_cast<float>(i);
        data.append(reinterpret_cast<const char*>(&value), 4);
      }
      header += cat(header.size() > 1 ? "," : "", "\"", tensor.name, "\":{\"dtype\":\"F32\",\"shape\":[",
                    join(tensor.shape, ","), "],\"data_offsets\":[", begin, ",", data.size(), "]}");
    }
    header += "}";
    std::string length;
    for (int i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i) & 255);
    std::ofstream(path(file), std::ios::binary) << length << header << data;
    return path(file);
  }

 private:
  std::filesystem::path folder_;
};

struct CheckpointNet : nn::Module {
  CheckpointNet() = default;
  explicit CheckpointNet(const std::string& name) : Module(name) {}
  nn::Linear fc1{*this, "fc1", 6, 8}, fc2{*this, "fc2", 8, 4};
  Tensor operator()(Tensor x) { return fc2(dropout(tanh(fc1(x)), 0.25)); }
};

inline HostArray sine_values(const Shape& shape, int step) {
  HostArray out(TensorType{DType::f32, shape});
  auto data = out.data<float>();
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + step));
  return out;
}

// A model with its optimiser and its training step in a world.
struct CheckpointTrainer {
  explicit CheckpointTrainer(World& world, const std::string& mesh = "", const std::string& name = "")
      : net(name),
        adam(net.parameters(), {.lr = 0.05, .name = name + "adam"}) {
    step.emplace(compile(world.mesh(mesh), [this](Tensor x) {
      Tensor loss = mean(net(x) * net(x));
      adam.step(grad(loss, net.parameters()));
      return loss;
    }));
  }
  std::vector<double> losses(int steps, int first = 0) {
    std::vector<double> out;
    for (int i = 0; i < steps; ++i) out.push_back((*step)(sine_values({8, 6}, first + i)).item());
    return out;
  }
  CheckpointNet net;
  optim::Adam adam;
  std::optional<Function> step;
};

inline std::string bytes_of(const HostArray& array) {
  return {reinterpret_cast<const char*>(array.bytes()), static_cast<std::size_t>(array.type().bytes())};
}
inline std::map<std::string, std::string> all_bytes(const World& world) {
  std::map<std::string, std::string> out;
  for (const std::string& name : world.variables()) out[name] = bytes_of(world.read(name));
  return out;
}

}  // namespace karez
