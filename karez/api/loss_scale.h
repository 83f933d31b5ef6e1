// LossScale: options of the loss scale in mixed precision.
#pragma once

#include <cstdint>

namespace karez {

// With amp = "f16" the loss is multiplied by a scale before gradients are taken, and the gradients are divided by the
// scale. The scale is a variable of the world: "amp.scale" for the functions of the first mesh, "amp.scale.2" for those
// of the second mesh, and so on. It is initially 2^16. If any gradient of the program is not finite, its optimisers
// skip the step: parameters and step counters do not change, and the scale is multiplied by `backoff`. After `interval`
// consecutive steps with finite gradients, the scale is multiplied by `growth`. The defaults are those of PyTorch's
// GradScaler.
struct LossScale {
  double growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;
};

}  // namespace karez
