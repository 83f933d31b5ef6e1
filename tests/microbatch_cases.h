// Defines models, data and comparisons for the tests of micro-batches.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {

struct DropoutMlp : nn::Module {
  explicit DropoutMlp(double drop) : Module(DType::f64), drop{*this, "drop", drop} {}
  nn::Linear fc1{*this, "fc1", 6, 10}, fc2{*this, "fc2", 10, 10}, fc3{*this, "fc3", 10, 4};
  nn::Dropout drop;
  Tensor operator()(Tensor x) { return fc3(drop(tanh(fc2(drop(tanh(fc1(reshape(x, {x.shape()[0], 6})))))))); }
};

inline HostArray images(std::mt19937& random, std::int64_t batch) {
  HostArray x(TensorType{DType::f64, {batch, 1, 3, 2}});
  std::normal_distribution<double> normal;
  for (double& value : x.data<double>()) value = normal(random);
  return x;
}

inline HostArray labels(std::mt19937& random, std::int64_t batch) {
  HostArray y(TensorType{DType::i32, {batch}});
  for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 4);
  return y;
}

// Transfers are free and compute is expensive, so that small models are split as much as possible.
inline CostTable prefer_splitting() {
  CostTable costs;
  costs.link = {0, 0};
  costs.matmul_flops = costs.conv_flops = 1e6;
  return costs;
}

inline double max_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), 1e-2));
  return largest;
}

}  // namespace karez::tests
