// Resizes images of bytes or floats with antialiasing, with the arithmetic of PIL's Image.resize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "karez/kernels/cpu/resize_weights.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// `in` has the pixels [in_height, in_width, channels], `out` [out_height, out_width, channels]; all sizes are at least
// 1. With `bicubic`, the filter is Keys' with a = -0.5; otherwise it is a triangle. A filter that reduces the size is
// as wide as the step between output pixels requires. The results are the same on all instruction sets.
void resize_image(const std::uint8_t* in, std::int64_t in_height, std::int64_t in_width, std::int64_t channels,
                  std::uint8_t* out, std::int64_t out_height, std::int64_t out_width, bool bicubic);
// The same for floats, which are not rounded.
void resize_floats(const float* in, std::int64_t in_height, std::int64_t in_width, std::int64_t channels, float* out,
                   std::int64_t out_height, std::int64_t out_width, bool bicubic);

// The weights of samples of the type T: integers for bytes, otherwise floats.
template <class T> using ResizeWeight = std::conditional_t<std::is_integral_v<T>, std::int32_t, float>;
template <class T> class ResizeTaps {
 public:
  explicit ResizeTaps(const ResizeWeights& exact);
  struct Window {
    std::int64_t first, count;
    const ResizeWeight<T>* weights;
  };
  Window at(std::int64_t i) const {
    const auto n = static_cast<std::size_t>(i);
    return {bounds_.first[n], bounds_.count[n], weights_.data() + n * bounds_.stride};
  }
  std::int64_t size() const { return static_cast<std::int64_t>(bounds_.first.size()); }

 private:
  ResizeWeights bounds_;  // without its weights
  std::vector<ResizeWeight<T>> weights_;
};

// Resizes each of `rows` rows of `width` pixels to taps.size() pixels.
void resize_rows(const std::uint8_t* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                 const ResizeTaps<std::uint8_t>& taps, std::uint8_t* out);
void resize_rows(const float* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                 const ResizeTaps<float>& taps, float* out);
// Rows `begin` to `end` - 1 of the taps.size() rows of the result, each of which is a sum of rows of `in`. A row has
// `row` samples.
void resize_columns(const std::uint8_t* in, std::int64_t row, const ResizeTaps<std::uint8_t>& taps, std::int64_t begin,
                    std::int64_t end, std::uint8_t* out);
void resize_columns(const float* in, std::int64_t row, const ResizeTaps<float>& taps, std::int64_t begin,
                    std::int64_t end, float* out);

}  // namespace karez::kernels
