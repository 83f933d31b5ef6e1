// Makes the loops over the slices along an axis.
#include "karez/kernels/cpu/axis_slices.h"

#include <utility>

namespace karez::kernels {

std::optional<AxisSlices> axis_slices(const std::vector<View>& views, std::int64_t axis) {
  AxisSlices out;
  Shape kept;
  std::vector<Strides> strides;
  for (std::size_t k = 0; k < views.size(); ++k) {
    const View& view = views[k];
    if (axis < 0 || axis >= view.rank() || view.count() == 0) return std::nullopt;
    Shape shape = view.shape;
    Strides steps = view.strides;
    out.size[k] = shape[static_cast<std::size_t>(axis)];
    out.step[k] = steps[static_cast<std::size_t>(axis)];
    shape.erase(shape.begin() + axis);
    steps.erase(steps.begin() + axis);
    if (k > 0 && shape != kept) return std::nullopt;
    kept = std::move(shape);
    strides.push_back(std::move(steps));
  }
  out.loops = loops_over(kept, strides, Order::by_memory);
  return out;
}

}  // namespace karez::kernels
