// Random shapes and random strides (dimensions in any order, with gaps), and the seed of a run, for tests.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <string>

#include "karez/kernels/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::kernels {

// Returns KAREZ_SEED or a new seed, and prints it, so that a failure can be repeated.
inline unsigned test_seed() {
  const char* text = std::getenv("KAREZ_SEED");
  const unsigned seed = text ? static_cast<unsigned>(std::stoul(text)) : std::random_device()();
  std::cout << "KAREZ_SEED=" << seed << "\n";
  return seed;
}

inline Shape random_shape(std::mt19937& random, int max_dims, int max_size) {
  Shape shape(random() % static_cast<unsigned>(max_dims + 1));
  for (auto& size : shape)
    size = static_cast<std::int64_t>(random() % 4 == 0 ? random() % static_cast<unsigned>(max_size + 1)
                                                       : 1 + random() % 4);
  return shape;
}

// Stores the dimensions in random order; half of the views have gaps between elements.
inline View random_view(std::mt19937& random, DType dtype, const Shape& shape) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  const bool gaps = random() % 2 == 0;
  Strides strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t d : order) {
    if (gaps) step += static_cast<std::int64_t>(random() % 3);
    strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return View(dtype, shape, strides);
}

}  // namespace karez::kernels
