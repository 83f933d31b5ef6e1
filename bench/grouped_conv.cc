// What does a convolution in groups of channels cost as one call, compared with slices, one convolution per group and a
// concat? Measures the forward pass and both gradients.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/timing.h"

namespace {

using namespace karez;

using bench::numbers;
using bench::seconds_per_run;

// Computes the grouped convolution from slices, convolutions and a concat.
Tensor conv_by_slices(const Tensor& x, const Tensor& w, std::int64_t groups) {
  std::vector<Term> outputs;
  const auto group_slice = [&](const Tensor& tensor, std::size_t axis, std::int64_t g) {
    Ints begin(4, 0), size = tensor.shape();
    size[axis] /= groups, begin[axis] = g * size[axis];
    return slice(tensor, begin, size);
  };
  for (std::int64_t g = 0; g < groups; ++g)
    outputs.push_back(conv2d(group_slice(x, 1, g), group_slice(w, 0, g), {.padding = {1, 1}}));
  return concat(outputs, 1);
}

void compare(World& world, std::int64_t channels, std::int64_t groups) {
  const HostArray x = numbers({8, channels, 28, 28}), w = numbers({channels, channels / groups, 3, 3});
  std::vector<std::function<void()>> variants;
  std::vector<double> sums;
  for (const bool as_one_call : {true, false}) {
    auto step = compile(world.mesh(), [=](Tensor image, Tensor kernel) {
      const Tensor a = image * 1.0, b = kernel * 1.0;
      const Tensor y = as_one_call ? grouped_conv2d(a, b, groups, {.padding = {1, 1}}) : conv_by_slices(a, b, groups);
      const std::vector<Tensor> gradients = grad(sum(y * y), std::vector<Tensor>{a, b});
      return sum(abs(y)) + sum(abs(gradients[0])) + sum(abs(gradients[1]));
    });
    sums.push_back(step(x, w).item());
    if (as_one_call)
      std::printf("  convolutions: %s",
                  step.summary().find("plain.conv2d") == std::string::npos ? "by oneDNN\n" : "by plain loops\n");
    variants.emplace_back([step, x, w] { step(x, w).wait(); });
  }
  std::vector<double> fastest(variants.size(), HUGE_VAL);
  for (int round = 0; round < 7; ++round)
    for (std::size_t i = 0; i < variants.size(); ++i)
      fastest[i] = std::min(fastest[i], seconds_per_run(variants[i], 5));
  std::printf(
      "%4lld channels in %4lld groups: %8.2f ms as one call, %8.2f ms by slices, ratio %.3f (sums differ by %.1e)\n",
      static_cast<long long>(channels), static_cast<long long>(groups), fastest[0] * 1e3, fastest[1] * 1e3,
      fastest[0] / fastest[1], std::abs(sums[0] / sums[1] - 1));
}

}  // namespace

int main() {
  World world({.team = 2});
  for (const auto& [channels, groups] :
       {std::pair{64, 2}, std::pair{64, 4}, std::pair{64, 8}, std::pair{64, 64}, std::pair{256, 32}})
    compare(world, channels, groups);
}
