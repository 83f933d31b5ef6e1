// Implements grouped convolution with conv2d nodes, and transposed convolution with the gradient of conv2d.
#include "karez/api/convolution.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/build.h"

namespace karez {
namespace {

void check_operands(std::string_view what, const TensorType& x, const TensorType& w, std::int64_t groups) {
  require(ErrorKind::shape, x.rank() == 4 && w.rank() == 4, what,
          ": expected x [n, c, h, w] and a weight of four dimensions, got ", x, " and ", w);
  require(ErrorKind::shape, groups >= 1 && x.shape[1] % groups == 0 && w.shape[0] % groups == 0, what,
          ": groups must divide the channels (dimension 1) of x ", x, " and dimension 0 of weight ", w, ", got ",
          groups);
}

Shape transposed_shape(const TensorType& x, const TensorType& w, const ConvTranspose2dOptions& o) {
  Shape out{x.shape[0], w.shape[1] * o.groups, 0, 0};
  for (std::size_t d = 0; d < 2; ++d) {
    for (const Ints* option : {&o.stride, &o.padding, &o.output_padding, &o.dilation})
      require(option->size() == 2,
              "conv_transpose2d: stride, padding, output_padding and dilation must be two numbers "
              "each, height and width");
    require(o.stride[d] >= 1 && o.dilation[d] >= 1 && o.padding[d] >= 0,
            "conv_transpose2d: stride and dilation must be at least 1, and padding at least 0; got stride ",
            o.stride[d], ", dilation ", o.dilation[d], ", padding ", o.padding[d]);
    require(o.output_padding[d] >= 0 && o.output_padding[d] < std::max(o.stride[d], o.dilation[d]),
            "conv_transpose2d: output_padding must be at least 0 and below stride or dilation; got output_padding ",
            o.output_padding[d], ", stride ", o.stride[d], ", dilation ", o.dilation[d]);
    out[d + 2] = (x.shape[d + 2] - 1) * o.stride[d] - 2 * o.padding[d] + o.dilation[d] * (w.shape[d + 2] - 1) +
                 o.output_padding[d] + 1;
    require(ErrorKind::shape, out[d + 2] >= 1, "conv_transpose2d: x ", x, " with weight ", w, " and padding ",
            o.padding[d], " gives a result of ", d == 0 ? "height " : "width ", out[d + 2], "; it must be at least 1");
  }
  return out;
}

}  // namespace

Tensor grouped_conv2d(Term x, Term weight, std::int64_t groups, Conv2dOptions options) {
  return at_line(x.where, [&](Trace& t) {
    Builder& b = t.builder;
    const ValueId image = t.value(x), kernel = t.value(weight);
    check_operands("grouped_conv2d", b.type(image), b.type(kernel), groups);
    return t.tensor(build::conv2d(b, image, kernel, {options.stride, options.padding, options.dilation, groups}));
  });
}

Tensor conv_transpose2d(Term x, Term weight, ConvTranspose2dOptions options) {
  return at_line(x.where, [&](Trace& t) {
    Builder& b = t.builder;
    const ValueId image = t.value(x), kernel = t.value(weight);
    const TensorType in = b.type(image), w = b.type(kernel);
    check_operands("conv_transpose2d", in, w, options.groups);
    require(ErrorKind::shape, w.shape[0] == in.shape[1], "conv_transpose2d: dimension 0 of the weight must be the ",
            in.shape[1], " channels of x ", in, ", got weight ", w);
    const Shape shape = transposed_shape(in, w, options);
    return t.tensor(build::conv2d_grad_input(
        b, image, kernel, {options.stride, options.padding, options.dilation, options.groups}, shape));
  });
}

nn::ConvTranspose2d::ConvTranspose2d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out,
                                     std::int64_t kernel, TransposeShape s)
    : Module(parent, name),
      shape(s) {
  require(in >= 1 && out >= 1 && kernel >= 1, "ConvTranspose2d '", path(),
          "': in, out and kernel must be at least 1, got ", in, ", ", out, " and ", kernel);
  require(s.groups >= 1 && in % s.groups == 0 && out % s.groups == 0, "ConvTranspose2d '", path(), "': ", s.groups,
          " groups do not divide ", in, " and ", out, " channels");
  const auto init = uniform_init(1 / std::sqrt(static_cast<double>(out / s.groups * kernel * kernel)));
  weight = make_parameter("weight", {in, out / s.groups, kernel, kernel}, init);
  if (s.bias) bias = make_parameter("bias", {out}, init);
}

Tensor nn::ConvTranspose2d::operator()(Term x) const {
  return at_line(x.where, path(), [&](Trace&) {
    const ConvTranspose2dOptions options{.stride = {shape.stride, shape.stride},
                                         .padding = {shape.padding, shape.padding},
                                         .output_padding = {shape.output_padding, shape.output_padding},
                                         .groups = shape.groups};
    const Tensor out = conv_transpose2d(x, Term(weight, x.where), options);
    return shape.bias ? out + reshape(Term(bias, x.where), {bias.shape()[0], 1, 1}) : out;
  });
}

}  // namespace karez
