// Inputs of several tests: random numbers, and a source that waits until the test opens it.
#pragma once

#include <future>
#include <random>
#include <utility>

#include "karez/api/compile.h"

namespace karez {

inline HostArray random_doubles(Shape shape, std::uint64_t seed) {
  HostArray out(TensorType{DType::f64, std::move(shape)});
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  for (double& x : out.data<double>()) x = number(random);
  return out;
}

// Waits until it is opened, then returns 5.
class LateSource : public Source {
 public:
  explicit LateSource(std::shared_future<void> open) : open_(std::move(open)) {}
  TensorType type() const override { return {DType::f32, {}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    open_.wait();
    out.as<float>()[0] = 5;
  }

 private:
  std::shared_future<void> open_;
};

}  // namespace karez
