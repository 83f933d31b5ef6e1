// Grouped and transposed convolutions.
#pragma once

#include <cstdint>
#include <string>

#include "karez/api/nn.h"

namespace karez {

// Grouped convolution of x [n, c, h, w] with weight [o, c / groups, r, s]: group g of the output channels is the
// convolution of group g of x's channels with group g of the weights. One call on each device computes all groups.
Tensor grouped_conv2d(Term x, Term weight, std::int64_t groups, Conv2dOptions options = {});

// Options of conv_transpose2d.
struct ConvTranspose2dOptions {
  Ints stride = {1, 1}, padding = {0, 0}, output_padding = {0, 0}, dilation = {1, 1};  // height, width
  std::int64_t groups = 1;
};
// Transposed convolution, like PyTorch's conv_transpose2d: x [n, c, h, w], weight [c, o / groups, r, s] -> [n, o, p,
// q]. It computes the gradient of a convolution with this weight, with respect to the input of the convolution. The
// height p = (h - 1) * stride - 2 * padding + dilation * (r - 1) + output_padding + 1; the width q follows from w and
// s.
Tensor conv_transpose2d(Term x, Term weight, ConvTranspose2dOptions options = {});

namespace nn {

// Options of the layer ConvTranspose2d; output_padding is added to the height and width of the result.
struct TransposeShape {
  std::int64_t stride = 1, padding = 0, output_padding = 0, groups = 1;
  bool bias = true;
};
// Transposed convolution: x [n, in, h, w] -> [n, out, p, q]; weight [in, out / groups, kernel, kernel], bias [out].
// As in PyTorch, initial values are uniform in [-b, b) with b = 1 / sqrt(out / groups * kernel * kernel).
struct ConvTranspose2d : Module {
  ConvTranspose2d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
                  TransposeShape shape = {});
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  TransposeShape shape;
};

}  // namespace nn
}  // namespace karez
