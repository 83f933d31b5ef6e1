// How the loss scale of half precision changes.
#pragma once

#include <cstdint>

namespace karez {

// With amp f16 gradients are taken of the loss times a scale, and divided by it: "amp.scale", state of the world that
// begins with 2^16, one for the functions of each mesh ("amp.scale.2" on the second). Where any gradient of the program
// is not finite, its optimisers' updates are skipped, with their step counters, and the scale falls; it grows after
// `interval` steps without. The numbers are those of PyTorch's GradScaler.
struct LossScale {
  double growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;
};

}  // namespace karez
