// Measures the time of runs, and makes input numbers.
#pragma once

#include <chrono>
#include <cmath>
#include <functional>

#include "bench/namespace.h"
#include "karez/karez.h"

namespace karez::bench {

// Returns the seconds per run, over `times` runs in sequence.
inline double seconds_per_run(const std::function<void()>& run, int times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

// Returns an array of varied numbers, the same in every run of the program.
inline HostArray numbers(Shape shape) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  auto data = out.data<float>();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::sin(0.7f * static_cast<float>(i % 9973));
  return out;
}

}  // namespace karez::bench
