// Copies in runs and tiles, shared among a team.
#include "kernels/cpu/copy_plan.h"
#include "kernels/cpu/fast_row.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/team.h"

namespace karez::kernels {
namespace {

std::optional<CopyPlan> copy_of(const CallSpec& call) {
  if (!takes(call, 1, 1) || call.in[0].dtype != call.out[0].dtype || call.in[0].shape != call.out[0].shape || call.out[0].count() == 0)
    return std::nullopt;
  const View& y = call.out[0];
  for (std::size_t d = 0; d < y.shape.size(); ++d)
    if (y.strides[d] == 0 && y.shape[d] > 1) return std::nullopt;
  CopyPlan plan = plan_copy(y.shape, y.strides, call.in[0].strides, size_of(y.dtype));
  if (plan.form == CopyPlan::Form::strided) return std::nullopt;
  return plan;
}

PreparedKernel copy(const CallSpec& call) {
  const auto plan = copy_of(call);
  require_fit(plan.has_value(), call, "neither side walks in runs or tiles");
  constexpr std::int64_t grain = 32768;  // elements below which a second thread costs more than it brings
  const std::int64_t element = plan->element, rows = plan->loops.size[0], each = std::max<std::int64_t>(call.out[0].count() / rows, 1);
  return [plan = *plan, element, rows, each, team = call.team](const KernelArgs& args) {
    parallel_for(team, rows, std::max<std::int64_t>(grain / each, 1), [&](std::int64_t from, std::int64_t to, int) {
      CopyPlan part = plan;
      part.loops.size[0] = to - from;
      run(part, args.out[0] + from * part.loops.stride[0][0] * element, args.in[0] + from * part.loops.stride[1][0] * element);
    });
  };
}

}  // namespace

std::vector<KernelRow> fast_copy_rows() {
  return {fast_row(
      "copy", [](const CallSpec& call) { return copy_of(call).has_value(); }, copy)};
}

}  // namespace karez::kernels
