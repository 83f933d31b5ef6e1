// Runs a function once for each instruction set that this processor and the fast kernels support, for tests.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

#include "karez/device/namespace.h"

namespace karez::device {

// Calls body(name) for "AVX3", "AVX2" and the compiler's baseline, then restores the default choice. Returns the number
// of instruction sets.
template <class Body> int on_every_instruction_set(Body&& body) {
  const std::int64_t supported = hwy::SupportedTargets();
  int sets = 0;
  for (std::int64_t target : {std::int64_t{HWY_AVX3}, std::int64_t{HWY_AVX2}, std::int64_t{HWY_SCALAR}}) {
    if ((supported & target) == 0 && target != HWY_SCALAR) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();  // otherwise the next call would use the earlier choice
    body(hwy::TargetName(target));
    ++sets;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
  return sets;
}

}  // namespace karez::device
