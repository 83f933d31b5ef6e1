// Runs a function on several meshes and compares its values and gradients.
#include "tests/expect_function.h"

#include <algorithm>

namespace karez::tests {

HostArray array(const Shape& shape, const Numbers& numbers) {
  HostArray out(TensorType{DType::f64, shape});
  std::copy(numbers.begin(), numbers.end(), out.data<double>().begin());
  return out;
}

Numbers random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Numbers out(static_cast<std::size_t>(count));
  for (double& value : out) value = normal(random);
  return out;
}

HostArray random_array(const Shape& shape, unsigned seed) {
  return array(shape, random_numbers(tensor::count_of(shape), seed));
}

Numbers numbers_of(const HostArray& a) {
  Numbers out;
  tensor::with_type(a.type().dtype, [&]<class T>() {
    for (T value : a.data<T>()) out.push_back(static_cast<double>(value));
  });
  return out;
}

std::vector<Numbers> run(const std::string& mesh, const Program& program, const std::vector<HostArray>& inputs) {
  World world({.devices = Mesh::parse(mesh).size(), .seed = 4});
  auto f = compile(world.mesh(mesh), [&](std::vector<Tensor> in) { return program(in); });
  std::vector<Argument> arguments(inputs.begin(), inputs.end());
  Future future = f.call(std::move(arguments));
  std::vector<Numbers> out;
  for (std::size_t i = 0; i < future.size(); ++i) out.push_back(numbers_of(future.value(i).read()));
  return out;
}

void expect_near(const Numbers& actual, const Numbers& expected, const std::string& label, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << label;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) EXPECT_TRUE(std::isnan(actual[i])) << label << " at " << i;
    else EXPECT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << label << " at " << i;
  }
}

void expect_function(const std::string& label, const std::function<Tensor(const std::vector<Tensor>&)>& function,
                     const std::vector<HostArray>& inputs, const Numbers& expected) {
  auto weighted = [&](Tensor y) {
    Tensor place = cast(reshape(iota({y.type.count()}, 0), y.shape()), DType::f64);
    return sum(y * cos(place * 1.7 + 0.3));
  };
  auto program = [&](const std::vector<Tensor>& in) {
    Tensor y = function(in);
    std::vector<Tensor> out{y, weighted(y)};
    for (Tensor& g : grad(out[1], in)) out.push_back(g);
    return out;
  };
  std::vector<Numbers> slopes;
  World world;
  auto loss = compile(world.mesh(""), [&](std::vector<Tensor> in) { return weighted(function(in)); });
  std::vector<HostArray> shifted;
  for (const HostArray& input : inputs) shifted.push_back(array(input.type().shape, numbers_of(input)));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    slopes.emplace_back();
    for (std::int64_t e = 0; e < inputs[i].count(); ++e) {
      double losses[2];
      const double value = shifted[i].data<double>()[static_cast<std::size_t>(e)];
      for (int sign = 0; sign < 2; ++sign) {
        shifted[i].data<double>()[static_cast<std::size_t>(e)] = value + (sign == 0 ? -1e-5 : 1e-5);
        losses[sign] = loss.call({shifted.begin(), shifted.end()}).item();
      }
      shifted[i].data<double>()[static_cast<std::size_t>(e)] = value;
      slopes[i].push_back((losses[1] - losses[0]) / 2e-5);
    }
  }
  for (const char* mesh : meshes) {
    const auto actual = run(mesh, program, inputs);
    expect_near(actual[0], expected, cat(label, " on '", mesh, "'"));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      expect_near(actual[i + 2], slopes[i], cat("gradient ", i, " of ", label, " on '", mesh, "'"), 1e-7);
  }
}

std::string error_of(const Program& program, const std::vector<HostArray>& inputs) {
  try {
    run("", program, inputs);
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

}  // namespace karez::tests
