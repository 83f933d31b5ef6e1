// Resizes images of bytes with antialiasing, with the arithmetic of PIL's Image.resize.
#pragma once

#include <cstdint>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// `in` has the pixels [in_height, in_width, channels], `out` [out_height, out_width, channels]; all sizes are at least
// 1. With `bicubic`, the filter is Keys' with a = -0.5; otherwise it is a triangle. A filter that reduces the size is
// as wide as the step between output pixels requires. The results are the same on all instruction sets.
void resize_image(const std::uint8_t* in, std::int64_t in_height, std::int64_t in_width, std::int64_t channels,
                  std::uint8_t* out, std::int64_t out_height, std::int64_t out_width, bool bicubic);

}  // namespace karez::kernels
