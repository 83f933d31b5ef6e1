// Collective: the description of an all_reduce, reduce_scatter, all_gather, all_to_all or transfer for one member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/plan/collective_kind.h"
#include "karez/tensor/tensor.h"

namespace karez::comm {

// into[i] = into[i] (+ | max | min) from[i], for `count` elements. The caller supplies it, because comm has no element
// types.
using ReduceFn = void (*)(std::byte* into, const std::byte* from, std::int64_t count);

// A box of a member's local tensor. It is empty if any size is 0, or if there are no sizes and the tensor is not a
// scalar.
struct TensorBox {
  std::vector<std::int64_t> begin, size;
  bool operator==(const TensorBox&) const = default;
};

// One collective from the view of one member. `in` and `out` must not share memory.
//   all_reduce      in, out: the same dense view on all members; no boxes; each member reduces one range of the flat
//                   memory
//   reduce_scatter  sends[m]: the box of `in` that m owns; receives[m]: all of `out`, for every m
//   all_gather      sends[m]: all of `in`, for every m; receives[m]: the box of `out` that m owns
//   all_to_all      sends[m]: the box of `in` that goes to m; receives[m]: the box of `out` that comes from m
// Both lists contain the member's own box. Boxes are sent in packed order: channels-last for rank 4, otherwise
// row-major. `in` and `out` may have any strides (in an all_reduce they must be dense); boxes that are contiguous in
// packed order are sent without a copy.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::all_reduce;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::direct;
  int member = 0;
  int members = 1;
  std::int64_t chunk = 1 << 18;  // maximum bytes of one message; rounded down to full elements, at least one
  View in, out;
  std::vector<TensorBox> sends = {}, receives = {};  // by member
  ReduceFn reduce = nullptr;                         // all_reduce and reduce_scatter
};

}  // namespace karez::comm
