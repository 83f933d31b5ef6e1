// Sliding windows of convolutions and pools: their attributes and the sizes of results.
#pragma once

#include <string_view>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

struct Window {
  Ints kernel, stride, padding, dilation;  // height, width
};

// From {stride, padding, dilation} (dilation 1 if absent), with the kernel's size given or, if null, from {kernel}.
Window window_of(std::string_view op, const Attrs& attrs, const Ints* kernel = nullptr);
// (h + 2 padding - dilation (kernel - 1) - 1) / stride + 1 in both directions; a window larger than the padded image is
// an error.
Ints output_size(std::string_view op, const Window& window, const Shape& image);
// Requires that the last two dimensions of `got` [n', c', p, q] are the output size for the image [n, c, h, w].
void require_output_size(std::string_view op, const Window& window, const Shape& image, const TensorType& got);

build::ConvOptions conv_options(const Attrs& attrs);
build::PoolOptions pool_options(const Attrs& attrs);

}  // namespace karez::ops
