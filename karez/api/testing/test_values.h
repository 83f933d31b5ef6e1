// Test helpers that compare the results of functions of tensors with expected numbers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "karez/api/tensor.h"
#include "karez/device/host_array.h"

namespace karez {

// Returns the elements of an array of any dtype as numbers.
inline std::vector<double> numbers_of(const HostArray& array) {
  return with_type(array.dtype(), [&]<class T>() {
    std::vector<double> out;
    for (const auto& element : array.data<T>()) out.push_back(static_cast<double>(element));
    return out;
  });
}

// Compares numbers up to a relative error; NaN equals NaN.
inline void expect_numbers(std::string_view label, const std::vector<double>& result,
                           const std::vector<double>& expected, double tolerance = 1e-6) {
  ASSERT_EQ(result.size(), expected.size()) << label;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) EXPECT_TRUE(std::isnan(result[i])) << label << ", element " << i << ": " << result[i];
    else EXPECT_NEAR(result[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << label << ", element " << i;
  }
}

// Reads a tensor, and compares its type and its elements.
inline void expect_values(std::string_view label, const Tensor& result, const TensorType& type,
                          const std::vector<double>& expected, double tolerance = 1e-6) {
  EXPECT_EQ(result.type, type) << label;
  const HostArray values = result.read();
  EXPECT_EQ(values.type(), type) << label;
  expect_numbers(label, numbers_of(values), expected, tolerance);
}

}  // namespace karez
