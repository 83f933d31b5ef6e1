// Plain convolution and its two gradients, for any strides; each output element is computed as a separate sum.
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/window.h"

namespace karez::kernels {
namespace {

// Views of x [n, c, h, w], weight [o, c / groups, r, s] and y [n, o, p, q]. A group has `group_inputs` channels of x
// and `group_outputs` channels of y.
struct Conv {
  View x, w, y;
  SlidingWindow window;
  std::int64_t group_inputs = 0, group_outputs = 0;
};
Conv conv_of(const CallSpec& call, const View& x, const View& w, const View& y) {
  require_fit(x.rank() == 4 && w.rank() == 4 && y.rank() == 4, call, "all operands must have four dimensions");
  SlidingWindow window = window_of(call.attrs, w.shape[2], w.shape[3]);
  const std::int64_t groups = call.attrs.integer("groups", 1);
  require_fit(x.shape[0] == y.shape[0] && x.shape[1] == w.shape[1] * groups && w.shape[0] == y.shape[1] &&
                  y.shape[1] % groups == 0,
              call, "batch or channels differ");
  require_fit(window.fits(x.shape, y.shape), call, "the output has the wrong height or width");
  return {x, w, y, window, x.shape[1] / groups, y.shape[1] / groups};
}

// The strides of a view [n, c, h, w].
struct Strides4 {
  std::int64_t n, c, h, w;
};
Strides4 strides4_of(const View& view) { return {view.strides[0], view.strides[1], view.strides[2], view.strides[3]}; }

template <class T> double dot(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(a[i * a_step]) * static_cast<double>(b[i * b_step]);
  return sum;
}

PreparedKernel forward(const CallSpec& call) {
  const Conv conv = conv_of(call, call.in[0], call.in[1], call.out[0]);
  const bool bias = call.attrs.flag("bias", false), relu = call.attrs.flag("relu", false);
  if (bias) require_fit(call.in[2].shape == Shape{conv.w.shape[0]}, call, "the bias must have the shape [o]");
  const std::int64_t bias_step = bias ? call.in[2].strides[0] : 0;
  const Strides4 xs = strides4_of(conv.x), ws = strides4_of(conv.w), ys = strides4_of(conv.y);
  return with_product(conv.x.dtype, conv.y.dtype, [&]<class T, class Y>() -> PreparedKernel {
    return [=](const KernelArgs& args) {
      const T *x = elements<T>(args.in[0]), *w = elements<T>(args.in[1]);
      Y* y = elements<Y>(args.out[0]);
      const std::int64_t height = conv.x.shape[2], width = conv.x.shape[3];
      for (std::int64_t n = 0; n < conv.y.shape[0]; ++n)
        for (std::int64_t p = 0; p < conv.y.shape[2]; ++p)
          for (std::int64_t q = 0; q < conv.y.shape[3]; ++q)
            for (std::int64_t o = 0; o < conv.y.shape[1]; ++o) {
              double sum = bias ? static_cast<double>(elements<Bias<T>>(args.in[2])[o * bias_step]) : 0;
              for (std::int64_t r = 0; r < conv.w.shape[2]; ++r)
                for (std::int64_t s = 0; s < conv.w.shape[3]; ++s) {
                  const std::int64_t h = conv.window.row(p, r), v = conv.window.column(q, s);
                  if (h < 0 || h >= height || v < 0 || v >= width) continue;
                  const T* first = x + n * xs.n + o / conv.group_outputs * conv.group_inputs * xs.c;
                  sum += dot(first + h * xs.h + v * xs.w, xs.c, w + o * ws.n + r * ws.h + s * ws.w, ws.c,
                             conv.group_inputs);
                }
              y[n * ys.n + o * ys.c + p * ys.h + q * ys.w] = static_cast<Y>(relu ? ieee_maximum(sum, 0.0) : sum);
            }
    };
  });
}

// dx[n, c, h, w] = sum over o, r, s of dy[n, o, p, q] w[o, c, r, s], where tap (r, s) of window (p, q) is pixel (h, w).
PreparedKernel grad_input(const CallSpec& call) {
  const Conv conv = conv_of(call, call.out[0], call.in[1], call.in[0]);
  const Strides4 xs = strides4_of(conv.x), ws = strides4_of(conv.w), ys = strides4_of(conv.y);
  return with_product(conv.y.dtype, conv.x.dtype, [&]<class T, class Y>() -> PreparedKernel {
    return [=](const KernelArgs& args) {
      const T *dy = elements<T>(args.in[0]), *w = elements<T>(args.in[1]);
      Y* dx = elements<Y>(args.out[0]);
      const std::int64_t rows = conv.y.shape[2], columns = conv.y.shape[3];
      for (std::int64_t n = 0; n < conv.x.shape[0]; ++n)
        for (std::int64_t h = 0; h < conv.x.shape[2]; ++h)
          for (std::int64_t v = 0; v < conv.x.shape[3]; ++v)
            for (std::int64_t c = 0; c < conv.x.shape[1]; ++c) {
              double sum = 0;
              for (std::int64_t r = 0; r < conv.w.shape[2]; ++r)
                for (std::int64_t s = 0; s < conv.w.shape[3]; ++s) {
                  const std::int64_t p = conv.window.output_row(h, r), q = conv.window.output_column(v, s);
                  if (p < 0 || p >= rows || q < 0 || q >= columns) continue;
                  const std::int64_t o = c / conv.group_inputs * conv.group_outputs;
                  const T* taps = w + o * ws.n + c % conv.group_inputs * ws.c;
                  sum += dot(dy + n * ys.n + o * ys.c + p * ys.h + q * ys.w, ys.c, taps + r * ws.h + s * ws.w, ws.n,
                             conv.group_outputs);
                }
              dx[n * xs.n + c * xs.c + h * xs.h + v * xs.w] = static_cast<Y>(sum);
            }
    };
  });
}

// dw[o, c, r, s] = sum over n, p, q of dy[n, o, p, q] x[n, c, h, w].
PreparedKernel grad_weight(const CallSpec& call) {
  const Conv conv = conv_of(call, call.in[0], call.out[0], call.in[1]);
  const Strides4 xs = strides4_of(conv.x), ws = strides4_of(conv.w), ys = strides4_of(conv.y);
  return with_product(conv.x.dtype, conv.w.dtype, [&]<class T, class Y>() -> PreparedKernel {
    return [=](const KernelArgs& args) {
      const T *x = elements<T>(args.in[0]), *dy = elements<T>(args.in[1]);
      Y* dw = elements<Y>(args.out[0]);
      const std::int64_t height = conv.x.shape[2], width = conv.x.shape[3];
      for (std::int64_t o = 0; o < conv.w.shape[0]; ++o)
        for (std::int64_t r = 0; r < conv.w.shape[2]; ++r)
          for (std::int64_t s = 0; s < conv.w.shape[3]; ++s)
            for (std::int64_t c = 0; c < conv.w.shape[1]; ++c) {
              double sum = 0;
              for (std::int64_t n = 0; n < conv.x.shape[0]; ++n)
                for (std::int64_t p = 0; p < conv.y.shape[2]; ++p)
                  for (std::int64_t q = 0; q < conv.y.shape[3]; ++q) {
                    const std::int64_t h = conv.window.row(p, r), v = conv.window.column(q, s);
                    if (h < 0 || h >= height || v < 0 || v >= width) continue;
                    sum += static_cast<double>(dy[n * ys.n + o * ys.c + p * ys.h + q * ys.w]) *
                           static_cast<double>(x[n * xs.n + (o / conv.group_outputs * conv.group_inputs + c) * xs.c +
                                                 h * xs.h + v * xs.w]);
                  }
              dw[o * ws.n + c * ws.c + r * ws.h + s * ws.w] = static_cast<Y>(sum);
            }
    };
  });
}

bool supports_floats(const CallSpec& call, int inputs) {
  if (!has_operands(call, inputs, 1) || !is_float(call.in[0].dtype) ||
      !product_types(call.in[0], call.in[1], call.out[0]))
    return false;
  return inputs < 3 || call.in[2].dtype == (is_half(call.in[0].dtype) ? DType::f32 : call.in[0].dtype);
}

}  // namespace

std::vector<KernelRow> plain_conv_rows() {
  return {
      plain_row(
          "conv2d", [](const CallSpec& call) { return supports_floats(call, call.attrs.flag("bias", false) ? 3 : 2); },
          forward),
      plain_row(
          "conv2d_grad_input", [](const CallSpec& call) { return supports_floats(call, 2); }, grad_input),
      plain_row(
          "conv2d_grad_weight", [](const CallSpec& call) { return supports_floats(call, 2); }, grad_weight)};
}

}  // namespace karez::kernels
