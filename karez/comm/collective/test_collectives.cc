// Reductions, random strides and parts, and formulas for bytes sent, for tests of collectives.
#include "karez/comm/collective/test_collectives.h"

#include "karez/comm/collective/program.h"

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

std::int64_t bytes_sent(const CollectiveSpec& spec) {
  std::int64_t element_bytes = size_of(spec.in.dtype), peers = spec.members - 1, elements = 0;
  bool ring = spec.algorithm == CollectiveAlgorithm::ring;
  int next = (spec.member + 1) % spec.members;
  switch (spec.kind) {
    case CollectiveKind::all_reduce: {
      std::int64_t total = spec.in.count(), own_range = flat_range(total, spec.members, spec.member).size;
      if (spec.algorithm == CollectiveAlgorithm::flat) return peers * total * element_bytes;
      if (uses_recursive_halving(spec)) {
        std::int64_t results = 0;
        for (int size = 1; size < spec.members; size *= 2)
          for (int r = spec.member / size * size; r < spec.member / size * size + size; ++r)
            results += flat_range(total, spec.members, r).size;
        return (total - own_range + results) * element_bytes;
      }
      // Both algorithms send the other members' ranges. Then `direct` sends its own result to all other members; `ring`
      // forwards all results except its successor's.
      return (total - own_range + (ring ? total - flat_range(total, spec.members, next).size : peers * own_range)) *
             element_bytes;
    }
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
    case CollectiveKind::transfer:
      for (int m = 0; m < spec.members; ++m)
        if (m != spec.member) elements += count_of(spec.in, spec.sends[m]);
      return elements * element_bytes;
    case CollectiveKind::all_gather:
      if (!ring) return peers * spec.in.count() * element_bytes;
      for (int m = 0; m < spec.members; ++m)
        if (m != next) elements += count_of(spec.out, spec.receives[m]);
      return elements * element_bytes;
  }
  return 0;
}

std::int64_t planned_bytes(CollectiveKind kind, CollectiveAlgorithm algorithm, int members, std::int64_t bytes,
                           std::int64_t kept_bytes) {
  std::int64_t peers = members - 1;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return checked_mul(peers * (algorithm == CollectiveAlgorithm::flat ? members : 2), bytes);
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather: return checked_mul(peers, bytes);
    case CollectiveKind::all_to_all:
    case CollectiveKind::transfer: return bytes - kept_bytes;
  }
  return 0;
}

}  // namespace karez::comm::test
