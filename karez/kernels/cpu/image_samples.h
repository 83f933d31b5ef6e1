// Moves and normalises the samples of images. The results are those of plain loops, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// out = (x - mean[c]) / std[c] for each sample of channel c, where x is a byte / 255, or a float; in f32. `in` is
// [pixels, channels], and so is `out`, or [channels, pixels] with `planes`.
void normalize_bytes(const std::uint8_t* in, std::int64_t pixels, std::int64_t channels, const float* mean,
                     const float* std, bool planes, float* out);
void normalize_floats(const float* in, std::int64_t pixels, std::int64_t channels, const float* mean, const float* std,
                      bool planes, float* out);

// Mirrors rows of `width` pixels.
void flip_rows(const std::byte* in, std::int64_t rows, std::int64_t width, std::size_t pixel_bytes, std::byte* out);

}  // namespace karez::kernels
