// Sliding windows of convolutions and pools: the attributes of windows and the sizes of results.
#pragma once

#include <string_view>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

struct Window {
  Ints kernel, stride, padding, dilation;  // height, width
};

// Makes a window from the attributes {stride}, {padding} and {dilation}, which is 1 if absent. The size of the kernel
// is `kernel` or, if this is null, the attribute {kernel}.
Window window_of(std::string_view op, const Attrs& attrs, const Ints* kernel = nullptr);
// Returns (h + 2 padding - dilation (kernel - 1) - 1) / stride + 1 in both directions. Throws if a window is larger
// than the padded image.
Ints output_size(std::string_view op, const Window& window, const Shape& image);
// Requires that the last two dimensions of `output` [n', c', p, q] are the output size for the image [n, c, h, w].
void require_output_size(std::string_view op, const Window& window, const Shape& image, const TensorType& output);

build::ConvOptions conv_options(const Attrs& attrs);
build::PoolOptions pool_options(const Attrs& attrs);

}  // namespace karez::ops
