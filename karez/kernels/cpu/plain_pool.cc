// Plain kernels of max and average pooling and their gradients. The innermost loop is over channels, which are
// contiguous in channels-last data.
#include <limits>

#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/window.h"

namespace karez::kernels {
namespace {

// One side of a pooling call: sizes and steps of [n, c, h, w].
struct Image {
  std::int64_t n, c, h, w, n_step, c_step, h_step, w_step;
  std::int64_t at(std::int64_t i, std::int64_t row, std::int64_t column) const {
    return i * n_step + row * h_step + column * w_step;
  }
};
Image image_of(const View& v) {
  return {v.shape[0], v.shape[1], v.shape[2], v.shape[3], v.strides[0], v.strides[1], v.strides[2], v.strides[3]};
}

SlidingWindow pool_window(const CallSpec& call, const View& x, const View& y) {
  const Ints& kernel = call.attrs.ints("kernel");
  require_fit(kernel.size() == 2 && kernel[0] > 0 && kernel[1] > 0, call, "kernel must be a positive height and width");
  require_fit(x.rank() == 4 && y.rank() == 4 && x.shape[0] == y.shape[0] && x.shape[1] == y.shape[1], call,
              "batch or channels differ");
  const SlidingWindow window = window_of(call.attrs, kernel[0], kernel[1]);
  require_fit(window.fits(x.shape, y.shape), call, "the output has the wrong height or width");
  return window;
}

// Calls body(n, p, q) for every pixel of the image.
template <class Body> void for_each_pixel(const Image& image, Body&& body) {
  for (std::int64_t n = 0; n < image.n; ++n)
    for (std::int64_t p = 0; p < image.h; ++p)
      for (std::int64_t q = 0; q < image.w; ++q) body(n, p, q);
}

// Returns the first maximum in the row-major order of the window. NaN counts as larger than any number, and padding is
// ignored. For a window that contains only padding, the index is -1 and the value is the lowest value of the type.
PreparedKernel max_pool(const CallSpec& call) {
  const SlidingWindow window = pool_window(call, call.in[0], call.out[0]);
  require_fit(call.out[1].shape == call.out[0].shape, call, "value and index have different shapes");
  const Image from = image_of(call.in[0]), to = image_of(call.out[0]), argmax = image_of(call.out[1]);
  return with_number(call.in[0].dtype, [&]<class T>() -> PreparedKernel {
    return [=](const KernelArgs& args) {
      for_each_pixel(to, [&](std::int64_t n, std::int64_t p, std::int64_t q) {
        T* y = elements<T>(args.out[0]) + to.at(n, p, q);
        auto* index = elements<std::int32_t>(args.out[1]) + argmax.at(n, p, q);
        bool first = true;
        for (std::int64_t r = 0; r < window.kernel_h; ++r)
          for (std::int64_t s = 0; s < window.kernel_w; ++s) {
            const std::int64_t h = window.row(p, r), w = window.column(q, s);
            if (h < 0 || h >= from.h || w < 0 || w >= from.w) continue;
            const T* x = elements<T>(args.in[0]) + from.at(n, h, w);
            const auto tap = static_cast<std::int32_t>(r * window.kernel_w + s);
            for (std::int64_t c = 0; c < to.c; ++c) {
              const T value = x[c * from.c_step], best = y[c * to.c_step];
              if (!first && !(value > best || (value != value && best == best))) continue;
              y[c * to.c_step] = value;
              index[c * argmax.c_step] = tap;
            }
            first = false;
          }
        for (std::int64_t c = 0; first && c < to.c; ++c) {
          y[c * to.c_step] = std::numeric_limits<T>::has_infinity ? static_cast<T>(-std::numeric_limits<T>::infinity())
                                                                  : std::numeric_limits<T>::lowest();
          index[c * argmax.c_step] = -1;
        }
      });
    };
  });
}

// dx of a pixel is the sum of dy over the windows in which the pixel is the maximum. The sum is computed per pixel, so
// that partial sums are not written to memory.
PreparedKernel max_pool_grad(const CallSpec& call) {
  const SlidingWindow window = pool_window(call, call.out[0], call.in[0]);
  require_fit(call.in[1].shape == call.in[0].shape, call, "gradient and index have different shapes");
  const Image dys = image_of(call.in[0]), argmax = image_of(call.in[1]), dxs = image_of(call.out[0]);
  return with_float(call.out[0].dtype, [&]<class T>() -> PreparedKernel {
    return [=](const KernelArgs& args) {
      const T* dy = elements<T>(args.in[0]);
      const auto* index = elements<std::int32_t>(args.in[1]);
      for_each_pixel(dxs, [&](std::int64_t n, std::int64_t h, std::int64_t w) {
        T* dx = elements<T>(args.out[0]) + dxs.at(n, h, w);
        for (std::int64_t c = 0; c < dxs.c; ++c) {
          double sum = 0;
          for (std::int64_t r = 0; r < window.kernel_h; ++r)
            for (std::int64_t s = 0; s < window.kernel_w; ++s) {
              const std::int64_t p = window.output_row(h, r), q = window.output_column(w, s);
              if (p < 0 || p >= dys.h || q < 0 || q >= dys.w) continue;
              if (index[argmax.at(n, p, q) + c * argmax.c_step] == r * window.kernel_w + s)
                sum += dy[dys.at(n, p, q) + c * dys.c_step];
            }
          dx[c * dxs.c_step] = static_cast<T>(sum);
        }
      });
    };
  });
}

PreparedKernel avg_pool(const CallSpec& call) {
  const SlidingWindow window = pool_window(call, call.in[0], call.out[0]);
  const Image from = image_of(call.in[0]), to = image_of(call.out[0]);
  return with_float(call.in[0].dtype, [&]<class T>() -> PreparedKernel {
    return [=](const KernelArgs& args) {
      const T* x = elements<T>(args.in[0]);
      const auto taps = static_cast<double>(window.kernel_h * window.kernel_w);  // padding is included
      for_each_pixel(to, [&](std::int64_t n, std::int64_t p, std::int64_t q) {
        T* y = elements<T>(args.out[0]) + to.at(n, p, q);
        for (std::int64_t c = 0; c < to.c; ++c) {
          double sum = 0;
          for (std::int64_t r = 0; r < window.kernel_h; ++r)
            for (std::int64_t s = 0; s < window.kernel_w; ++s) {
              const std::int64_t h = window.row(p, r), w = window.column(q, s);
              if (h >= 0 && h < from.h && w >= 0 && w < from.w) sum += x[from.at(n, h, w) + c * from.c_step];
            }
          y[c * to.c_step] = static_cast<T>(sum / taps);
        }
      });
    };
  });
}

PreparedKernel avg_pool_grad(const CallSpec& call) {
  const SlidingWindow window = pool_window(call, call.out[0], call.in[0]);
  const Image dys = image_of(call.in[0]), dxs = image_of(call.out[0]);
  return with_float(call.out[0].dtype, [&]<class T>() -> PreparedKernel {
    return [=](const KernelArgs& args) {
      const T* dy = elements<T>(args.in[0]);
      const auto taps = static_cast<double>(window.kernel_h * window.kernel_w);
      for_each_pixel(dxs, [&](std::int64_t n, std::int64_t h, std::int64_t w) {
        T* dx = elements<T>(args.out[0]) + dxs.at(n, h, w);
        for (std::int64_t c = 0; c < dxs.c; ++c) {
          double sum = 0;
          for (std::int64_t r = 0; r < window.kernel_h; ++r)
            for (std::int64_t s = 0; s < window.kernel_w; ++s) {
              const std::int64_t p = window.output_row(h, r), q = window.output_column(w, s);
              if (p >= 0 && p < dys.h && q >= 0 && q < dys.w) sum += dy[dys.at(n, p, q) + c * dys.c_step];
            }
          dx[c * dxs.c_step] = static_cast<T>(sum / taps);
        }
      });
    };
  });
}

}  // namespace

std::vector<KernelRow> plain_pool_rows() {
  const auto same_float = [](const CallSpec& call) {
    return has_operands(call, 1, 1) && is_float(call.in[0].dtype) && call.out[0].dtype == call.in[0].dtype;
  };
  const auto supports_max_pool = [](const CallSpec& call) {
    return has_operands(call, 1, 2) && call.in[0].dtype != DType::b8 && call.out[0].dtype == call.in[0].dtype &&
           call.out[1].dtype == DType::i32;
  };
  const auto supports_max_pool_grad = [](const CallSpec& call) {
    return has_operands(call, 2, 1) && is_float(call.out[0].dtype) && call.in[0].dtype == call.out[0].dtype &&
           call.in[1].dtype == DType::i32;
  };
  return {plain_row("max_pool", supports_max_pool, max_pool),
          plain_row("max_pool_grad", supports_max_pool_grad, max_pool_grad),
          plain_row("avg_pool", same_float, avg_pool), plain_row("avg_pool_grad", same_float, avg_pool_grad)};
}

}  // namespace karez::kernels
