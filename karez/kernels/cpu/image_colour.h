// Changes the colours of images of bytes with 1 to 4 channels, the last of which is alpha if there are 2 or 4.
#pragma once

#include <array>
#include <cstdint>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// PIL's grey of red, green and blue: the sum with these weights and of grey_half, shifted by grey_bits.
constexpr std::array<unsigned, 3> grey_weights = {19595, 38470, 7471};
constexpr unsigned grey_half = 1 << 15, grey_bits = 16;

// The colours become base + factor * (colour - base), in f32, limited to 0 to 255 and truncated. Alpha is copied.
void blend_colours(const std::uint8_t* in, std::int64_t pixels, int channels, int base, float factor,
                   std::uint8_t* out);
// The same, where the base is the grey of each pixel. Pixels of 1 or 2 channels are copied.
void blend_with_grey(const std::uint8_t* in, std::int64_t pixels, int channels, float factor, std::uint8_t* out);
// The sum of the greys of all pixels.
std::int64_t sum_of_greys(const std::uint8_t* in, std::int64_t pixels, int channels);

}  // namespace karez::kernels
