// Sliding windows of convolution and pooling: finds the input pixel that a given tap of a window reads, and the window
// whose given tap reads a pixel.
#pragma once

#include <cstdint>

#include "karez/base/attrs.h"
#include "karez/kernels/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::kernels {

struct SlidingWindow {
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1,
               dilation_w = 1;

  // Return the input pixel that tap r of window p reads; a pixel outside 0..h-1 is padding.
  std::int64_t row(std::int64_t p, std::int64_t r) const { return p * stride_h - pad_h + r * dilation_h; }
  std::int64_t column(std::int64_t q, std::int64_t s) const { return q * stride_w - pad_w + s * dilation_w; }
  // Return the window whose tap r reads pixel h: -1 if none does, and possibly a number past the last window.
  std::int64_t output_row(std::int64_t h, std::int64_t r) const {
    return window_at(h + pad_h - r * dilation_h, stride_h);
  }
  std::int64_t output_column(std::int64_t w, std::int64_t s) const {
    return window_at(w + pad_w - s * dilation_w, stride_w);
  }

  bool fits(const Shape& x, const Shape& y) const {
    return y[2] == count(x[2], kernel_h, stride_h, pad_h, dilation_h) &&
           y[3] == count(x[3], kernel_w, stride_w, pad_w, dilation_w);
  }

 private:
  static std::int64_t window_at(std::int64_t distance, std::int64_t stride) {
    return distance < 0 || distance % stride != 0 ? -1 : distance / stride;
  }
  static std::int64_t count(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                            std::int64_t dilation) {
    const std::int64_t span = size + 2 * pad - dilation * (kernel - 1) - 1;
    return span < 0 ? 0 : span / stride + 1;
  }
};

// Makes a window from {stride, padding, dilation}, whose defaults are 1, 0 and 1.
inline SlidingWindow window_of(const Attrs& attrs, std::int64_t kernel_h, std::int64_t kernel_w) {
  SlidingWindow out;
  out.kernel_h = kernel_h, out.kernel_w = kernel_w;
  const auto read = [&](const char* name, std::int64_t& h, std::int64_t& w) {
    if (!attrs.has(name)) return;
    const Ints& values = attrs.ints(name);
    require(values.size() == 2, name, " must have 2 numbers, height and width, got ", values.size());
    h = values[0], w = values[1];
  };
  read("stride", out.stride_h, out.stride_w);
  read("padding", out.pad_h, out.pad_w);
  read("dilation", out.dilation_h, out.dilation_w);
  require(out.stride_h > 0 && out.stride_w > 0 && out.dilation_h > 0 && out.dilation_w > 0,
          "stride and dilation of a window must be positive, got stride ", out.stride_h, " x ", out.stride_w,
          " and dilation ", out.dilation_h, " x ", out.dilation_w);
  return out;
}

}  // namespace karez::kernels
