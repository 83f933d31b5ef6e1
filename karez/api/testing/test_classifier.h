// A small classifier, with its images and labels, for tests of training.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "karez/api/nn.h"

namespace karez {

struct Classifier : nn::Module {
  using Module::Module;
  nn::Linear fc1{*this, "fc1", 16, 32}, fc2{*this, "fc2", 32, 32}, fc3{*this, "fc3", 32, 4};
  Tensor operator()(Tensor x) { return fc3(tanh(fc2(relu(fc1(x))))); }
};

inline HostArray images(std::int64_t rows, int step) {
  HostArray out(TensorType{DType::f32, {rows, 16}});
  auto data = out.data<float>();
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = std::sin(0.7f * static_cast<float>(i) + static_cast<float>(step % 3));
  return out;
}
inline HostArray labels(std::int64_t rows, int step) {
  HostArray out(TensorType{DType::i32, {rows}});
  for (std::int64_t i = 0; i < rows; ++i)
    out.data<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i * 3 + step % 3) % 4);
  return out;
}

}  // namespace karez
