// The ranges and chunks into which programs split the memory of a collective.
#include "karez/comm/collective/program.h"

#include <algorithm>

namespace karez::comm {

bool uses_recursive_halving(const CollectiveSpec& spec) {
  return spec.kind == CollectiveKind::all_reduce && spec.algorithm == CollectiveAlgorithm::recursive &&
         (spec.members & (spec.members - 1)) == 0;
}

FlatRange flat_range(std::int64_t elements, int members, int index) {
  std::int64_t size = elements / members, longer_ranges = elements % members;
  return {size * index + std::min<std::int64_t>(index, longer_ranges), size + (index < longer_ranges ? 1 : 0)};
}

std::int64_t chunk_elements(const CollectiveSpec& spec) {
  return std::max<std::int64_t>(spec.chunk / size_of(spec.in.dtype), 1);
}

}  // namespace karez::comm
