// LossScale: options of the loss scale in mixed precision.
#pragma once

#include <cstdint>

namespace karez {

// With amp = "f16" the loss is multiplied by a scale before gradients are taken, and the gradients are divided by the
// scale. The scale is the variable "amp.scale" of the world, one for the functions of each mesh ("amp.scale.2" on the
// second), initially 2^16. If any gradient of the program is not finite, the updates and step counters of its
// optimisers are skipped, and the scale decreases; after `interval` steps without such a gradient, it increases. The
// defaults are those of PyTorch's GradScaler.
struct LossScale {
  double growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;
};

}  // namespace karez
