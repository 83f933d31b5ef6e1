// The instruction sets for which Highway compiles each fast file: AVX-512, AVX2 and the compiler's baseline; each
// additional one costs build time. Include this header before hwy/foreach_target.h and hwy/highway.h.
#pragma once

#include <hwy/detect_targets.h>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
