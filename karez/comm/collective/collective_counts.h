// Collective counts: the messages of one run, and the staging and links that it needs.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/comm/collective/collective.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

// Returns the bytes of staging that this member's run needs, a multiple of 64. With r64(x) = x rounded up to a multiple
// of 64 and n members:
//   all_reduce      ring: 0; direct: (n-1) r64(min(chunk, bytes of the first range)); flat: (n-1) r64(bytes of the
//                   tensor); recursive: r64(bytes of the first n/4 ranges), 0 for two members
//                   (the first range, the longest, has ceil(elements / n) elements)
//   reduce_scatter  sum of r64(bytes) over the non-contiguous sends, including the member's own
//                   + r64(bytes of out) if out is not contiguous
//                   + direct: (n-1) r64(min(chunk, bytes of out)); ring: 2 r64(bytes of the largest send)
//   all_gather      r64(bytes of in) if in is not contiguous
//                   + sum of r64(bytes) over the non-contiguous receives, except the member's own
//   all_to_all      sum of r64(bytes) over the non-contiguous sends and receives, except the member's own
// Contiguous means that the box's elements are adjacent in memory when visited in packed order. One member needs no
// staging. More staging is allowed: a compiler may use the bound for boxes that are all non-contiguous. `chunk` is
// rounded as in CollectiveSpec.
std::int64_t staging_bytes(const CollectiveSpec& spec);

struct PlannedMessage {
  int peer = 0;
  bool sent = false;  // otherwise received
  std::int64_t bytes = 0;
};
// Returns the messages of one run, in the order in which each link carries them. Each message that one member sends to
// another is a message that the other receives.
std::vector<PlannedMessage> messages_of(const CollectiveSpec& spec);

// Returns the members with which this member exchanges bytes; its endpoint needs links to them. The relation is
// symmetric.
std::vector<int> peers_of(const CollectiveSpec& spec);

}  // namespace karez::comm
