// resize of u8 and f32 and its gradient, if operand and result are contiguous, by the loops of images.
#include <algorithm>

#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/image_resize.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/team.h"

namespace karez::kernels {
namespace {

// The operand is [outer, in, inner], the result [outer, out, inner].
template <class T> PreparedKernel resize_of(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  const auto axis = static_cast<std::size_t>(call.attrs.integer("axis"));
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < x.shape.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : x.shape[d];
  const std::int64_t in = x.shape[axis], out = y.shape[axis], most_channels = 4;
  const std::int64_t grain = std::max<std::int64_t>(32768 / (inner <= most_channels ? out * inner : inner), 1);
  const ResizeTaps<T> weights(resize_weights_of(call, axis));
  return [weights, outer, inner, in, out, grain, team = call.team](const KernelArgs& args) {
    const T* from = elements<T>(args.in[0]);
    T* to = elements<T>(args.out[0]);
    if (inner <= most_channels) {
      parallel_for(team, outer, grain, [&](std::int64_t begin, std::int64_t end, int) {
        resize_rows(from + begin * in * inner, end - begin, in, inner, weights, to + begin * out * inner);
      });
      return;
    }
    parallel_for(team, outer * out, grain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end;) {
        const std::int64_t i = row / out, first = row % out, last = std::min(out, first + end - row);
        resize_columns(from + i * in * inner, inner, weights, first, last, to + i * out * inner);
        row += last - first;
      }
    });
  };
}

PreparedKernel resize(const CallSpec& call) {
  return call.in[0].dtype == DType::u8 ? resize_of<std::uint8_t>(call) : resize_of<float>(call);
}

bool supports(const CallSpec& call) {
  if (!has_operands(call, 1, 1) || call.in[0].dtype != call.out[0].dtype) return false;
  const bool bytes = call.in[0].dtype == DType::u8 && call.op == "resize";
  return (bytes || call.in[0].dtype == DType::f32) && call.in[0].count() > 0 && call.out[0].count() > 0 &&
         call.in[0].contiguous() && call.out[0].contiguous();
}

}  // namespace

std::vector<KernelRow> fast_resize_rows() {
  return {fast_row("resize", supports, resize), fast_row("resize_grad", supports, resize)};
}

}  // namespace karez::kernels
