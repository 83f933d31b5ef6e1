// Compares a function of tensors with expected numbers on every mesh, and its gradients with difference quotients.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {

using Numbers = std::vector<double>;

inline constexpr const char* meshes[] = {"", "data=3", "data=2,model=2"};

HostArray array(const Shape& shape, const Numbers& numbers);

Numbers random_numbers(std::int64_t count, unsigned seed);
HostArray random_array(const Shape& shape, unsigned seed);

Numbers numbers_of(const HostArray& a);

using Program = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Returns the numbers of each output of the program, compiled on the mesh.
std::vector<Numbers> run(const std::string& mesh, const Program& program, const std::vector<HostArray>& inputs);

// Expects each difference to be at most `tolerance`, relative to expected numbers above 1. NaN equals NaN.
void expect_near(const Numbers& actual, const Numbers& expected, const std::string& label, double tolerance = 1e-11);

// Expects the result `expected` on every mesh. Also expects that the gradients of a weighted sum of the result match
// difference quotients for every input.
void expect_function(const std::string& label, const std::function<Tensor(const std::vector<Tensor>&)>& function,
                     const std::vector<HostArray>& inputs, const Numbers& expected);

// Returns the message of the Error that the program throws on one device, or "no error".
std::string error_of(const Program& program, const std::vector<HostArray>& inputs);

}  // namespace karez::tests
