// Converts between strides and orders of dimensions.
#include "karez/passes/lowering/dimension_order.h"

#include <algorithm>
#include <numeric>

namespace karez::passes {

Ints order_of(const View& view) {
  Ints order(view.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return view.strides[static_cast<std::size_t>(a)] > view.strides[static_cast<std::size_t>(b)];
  });
  return order;
}

View view_in_order(DType dtype, const Shape& shape, const Ints& order) {
  View out(dtype, shape);
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    auto d = static_cast<std::size_t>(order[i]);
    out.strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return out;
}

}  // namespace karez::passes
