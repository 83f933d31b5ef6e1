// Kernels that copy contiguous runs and transposed tiles; the threads of a team share the work.
#include <algorithm>

#include "karez/base/attr_cast.h"
#include "karez/kernels/cpu/copy_plan.h"
#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/team.h"

namespace karez::kernels {
namespace {

constexpr std::int64_t grain = 32768;  // fewer elements are not worth a second thread

std::optional<CopyPlan> copy_of(const CallSpec& call) {
  if (!has_operands(call, 1, 1) || call.in[0].dtype != call.out[0].dtype || call.in[0].shape != call.out[0].shape ||
      call.out[0].count() == 0)
    return std::nullopt;
  const View& y = call.out[0];
  for (std::size_t d = 0; d < y.shape.size(); ++d)
    if (y.strides[d] == 0 && y.shape[d] > 1) return std::nullopt;
  CopyPlan plan = plan_copy(y.shape, y.strides, call.in[0].strides, size_of(y.dtype));
  if (plan.kind == CopyPlan::Kind::strided) return std::nullopt;
  return plan;
}

PreparedKernel copy(const CallSpec& call) {
  const auto plan = copy_of(call);
  require_fit(plan.has_value(), call, "the fast kernel requires contiguous runs or tiles");
  const std::int64_t element_bytes = plan->element_bytes, rows = plan->loops.size[0],
                     row_elements = std::max<std::int64_t>(call.out[0].count() / rows, 1);
  return [plan = *plan, element_bytes, rows, row_elements, team = call.team](const KernelArgs& args) {
    parallel_for(team, rows, std::max<std::int64_t>(grain / row_elements, 1),
                 [&](std::int64_t from, std::int64_t to, int) {
                   CopyPlan part = plan;
                   part.loops.size[0] = to - from;
                   run(part, args.out[0] + from * part.loops.stride[0][0] * element_bytes,
                       args.in[0] + from * part.loops.stride[1][0] * element_bytes);
                 });
  };
}

// Plans the copy of x into the interior of the padded result.
std::optional<CopyPlan> interior_copy_of(const CallSpec& call) {
  if (!has_operands(call, 1, 1) || call.in[0].dtype != call.out[0].dtype || call.in[0].count() == 0)
    return std::nullopt;
  const View &x = call.in[0], &y = call.out[0];
  if (x.rank() != y.rank() || !is_dense(y.shape, y.strides)) return std::nullopt;
  CopyPlan plan = plan_copy(x.shape, y.strides, x.strides, size_of(y.dtype));
  if (plan.kind == CopyPlan::Kind::strided) return std::nullopt;
  return plan;
}

// Fills the complete result with the padding value, then copies x into the interior. A small result is still in the
// cache when the interior is written a second time.
PreparedKernel pad(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  const Ints &low = call.attrs.ints("low"), &high = call.attrs.ints("high");
  const auto interior = interior_copy_of(call);
  require_fit(interior.has_value() && low.size() == y.shape.size() && high.size() == y.shape.size(), call,
              "the fast kernel requires contiguous runs or tiles");
  for (std::size_t d = 0; d < low.size(); ++d)
    require_fit(low[d] >= 0 && high[d] >= 0 && low[d] + x.shape[d] + high[d] == y.shape[d], call,
                "the output's sizes must be low + input + high");
  return with_type(y.dtype, [&]<class T>() -> PreparedKernel {
    const T value = call.attrs.has("value") ? attr_cast<T>(attr_at(call.attrs, "value")) : T{};
    return [plan = *interior, value, skip = offset_of(low, y.strides) * size_of(y.dtype), count = y.count(),
            team = call.team](const KernelArgs& args) {
      T* out = elements<T>(args.out[0]);
      parallel_for(team, count, grain,
                   [&](std::int64_t from, std::int64_t to, int) { std::fill(out + from, out + to, value); });
      run(plan, args.out[0] + skip, args.in[0]);
    };
  });
}

}  // namespace

std::vector<KernelRow> fast_copy_rows() {
  return {fast_row(
              "copy", [](const CallSpec& call) { return copy_of(call).has_value(); }, copy),
          fast_row(
              "pad", [](const CallSpec& call) { return interior_copy_of(call).has_value(); }, pad)};
}

}  // namespace karez::kernels
