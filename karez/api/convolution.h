// Grouped and transposed convolutions.
#pragma once

#include <cstdint>
#include <string>

#include "karez/api/nn.h"

namespace karez {

// Grouped convolution of x [n, c, h, w] with weight [o, c / groups, r, s]: group g of the results is the convolution of
// group g of x's channels with group g of the weights. The plan has one convolution for each group, which is slow for
// many groups, such as one for each channel.
Tensor grouped_conv2d(Term x, Term weight, std::int64_t groups, Conv2dOptions options = {});

// Options of conv_transpose2d.
struct ConvTranspose2dOptions {
  Ints stride = {1, 1}, padding = {0, 0}, output_padding = {0, 0}, dilation = {1, 1};  // height, width
  std::int64_t groups = 1;
};
// Transposed convolution, as PyTorch's conv_transpose2d: the gradient of a convolution with this weight with respect to
// its input. x [n, c, h, w], weight [c, o / groups, r, s] -> [n, o, p, q] with p = (h - 1) stride - 2 padding +
// dilation (r - 1) + output_padding + 1.
Tensor conv_transpose2d(Term x, Term weight, ConvTranspose2dOptions options = {});

namespace nn {

// Options of the layer ConvTranspose2d; output_padding is added to the size of the result.
struct TransposeShape {
  std::int64_t stride = 1, padding = 0, output_padding = 0, groups = 1;
  bool bias = true;
};
// Transposed convolution: x [n, in, h, w] -> [n, out, p, q]; weight [in, out / groups, kernel, kernel], bias [out].
// Initial values are uniform within 1 / sqrt(out / groups * kernel * kernel), as in PyTorch.
struct ConvTranspose2d : Module {
  ConvTranspose2d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
                  TransposeShape shape = {});
  Tensor operator()(Term x) const;
  Parameter weight, bias;
  TransposeShape shape;
};

}  // namespace nn
}  // namespace karez
