// For tests: runs a body once for each instruction set that this processor and the fast files have.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// body(name): "AVX3", "AVX2" and what the compiler takes for granted. The best is chosen again behind it. Returns how
// many there were.
template <class Body> int on_every_instruction_set(Body&& body) {
  const std::int64_t all = hwy::SupportedTargets();
  int sets = 0;
  for (std::int64_t target : {std::int64_t{HWY_AVX3}, std::int64_t{HWY_AVX2}, std::int64_t{HWY_SCALAR}}) {
    if ((all & target) == 0 && target != HWY_SCALAR) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();  // or the next call would use what was chosen before
    body(hwy::TargetName(target));
    ++sets;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
  return sets;
}

}  // namespace karez::kernels
