// Reductions, random strides and random parts for tests of collectives.
#include "karez/comm/collective/test_collectives.h"

namespace karez::comm::test {

ReduceFn reduce_for(DType dtype, Op op) {
  return with_type(dtype, [&]<class T>() -> ReduceFn {
    return op == Op::sum   ? reduce_elements<T, Op::sum>
           : op == Op::max ? reduce_elements<T, Op::max>
                           : reduce_elements<T, Op::min>;
  });
}

Strides random_strides(const Shape& shape, bool gaps, std::mt19937_64& random) {
  if (!gaps && random() % 2) return channels_last(shape);
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Strides out(shape.size());
  std::int64_t step = gaps ? 1 + static_cast<std::int64_t>(random() % 2) : 1;
  for (std::size_t d : order) {
    out[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1) + (gaps ? static_cast<std::int64_t>(random() % 2) : 0);
  }
  return out;
}

std::vector<std::int64_t> random_parts(int n, std::mt19937_64& random) {
  std::vector<std::int64_t> out;
  for (int i = 0; i < n; ++i) out.push_back(random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % 5));
  return out;
}

}  // namespace karez::comm::test
