// Reads the attributes of sliding windows of convolutions and pools, and computes the sizes of results.
#include "karez/ops/window.h"

#include "karez/ops/shapes.h"

namespace karez::ops {

Window window_of(std::string_view op, const Attrs& attrs, const Ints* kernel) {
  Window w;
  w.kernel = kernel != nullptr ? *kernel : ints_of(op, attrs, "kernel", 2, 1);
  w.stride = ints_of(op, attrs, "stride", 2, 1);
  w.padding = ints_of(op, attrs, "padding", 2, 0);
  w.dilation = attrs.has("dilation") ? ints_of(op, attrs, "dilation", 2, 1) : Ints{1, 1};
  return w;
}

Ints output_size(std::string_view op, const Window& window, const Shape& image) {
  Ints out(2);
  for (std::size_t i = 0; i < 2; ++i) {
    require(ErrorKind::shape, window.kernel[i] >= 1, op, ": kernel sizes must be at least 1, got ", window.kernel);
    std::int64_t padded = checked_add(image[i + 2], checked_mul(2, window.padding[i]));
    std::int64_t extent = checked_add(checked_mul(window.dilation[i], window.kernel[i] - 1), 1);
    require(ErrorKind::shape, extent <= padded, op, ": the window size ", extent, " exceeds the padded ",
            i == 0 ? "height " : "width ", padded, " of ", image);
    out[i] = (padded - extent) / window.stride[i] + 1;
  }
  return out;
}

void require_output_size(std::string_view op, const Window& window, const Shape& image, const TensorType& output) {
  Ints expected = output_size(op, window, image);
  require(ErrorKind::shape, output.shape[2] == expected[0] && output.shape[3] == expected[1], op,
          ": windows over an image ", image, " give ", expected, " results, got ",
          Shape{output.shape[2], output.shape[3]});
}

build::ConvOptions conv_options(const Attrs& attrs) {
  return {attrs.ints("stride"), attrs.ints("padding"), attrs.has("dilation") ? attrs.ints("dilation") : Ints{1, 1},
          attrs.integer("groups", 1)};
}

build::PoolOptions pool_options(const Attrs& attrs) {
  return {attrs.ints("kernel"), attrs.ints("stride"), attrs.ints("padding")};
}

}  // namespace karez::ops
