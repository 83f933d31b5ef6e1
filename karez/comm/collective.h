// Collectives: one member's part of an all_reduce, reduce_scatter, all_gather, all_to_all or transfer, as a state
// machine that never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "karez/comm/link.h"
#include "karez/comm/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::comm {

// A transfer is an all_to_all in which a member may lack `in` or `out` (its view has no elements), and most boxes are
// empty.
enum class CollectiveKind { all_reduce, reduce_scatter, all_gather, all_to_all, transfer };
CollectiveKind kind_from(std::string_view name);  // "all_reduce", ...
std::string_view name_of(CollectiveKind kind);

// ring       each member exchanges data with its two neighbours only; n-1 rounds (all_reduce 2n-2); for many members.
//            all_to_all: as direct
// direct     all pairs at once; 1 round (all_reduce 2); best on shared memory with few members
// flat       all_reduce in one round: every member sends all its data to every other, n (n-1) S bytes; for few bytes.
//            Other kinds: as direct
// recursive  all_reduce of n = 2^k members by halving and doubling, 2k rounds; for few bytes and many members.
//            Other kinds and numbers of members: as direct
enum class Algorithm { ring, direct, flat, recursive };
Algorithm algorithm_from(std::string_view name);
std::string_view name_of(Algorithm algorithm);

// into[i] = into[i] (+ | max | min) from[i], for `count` elements. The caller supplies it, because comm has no element
// types.
using ReduceFn = void (*)(std::byte* into, const std::byte* from, std::int64_t count);

// A box of the local tensor of the member that holds it. Empty if any size is 0, or if there are no sizes and the
// tensor is not a scalar.
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
// A member's own box is in both lists. Boxes are sent in packed order: channels-last for rank 4, otherwise row-major.
// `in` and `out` may have any strides (all_reduce: dense), but boxes that are contiguous in packed order are sent
// without a copy.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Algorithm algorithm = Algorithm::direct;
  int member = 0;
  int members = 1;
  std::int64_t chunk = 1 << 18;  // the most bytes of one message; rounded down to whole elements, at least one
  View in, out;
  std::vector<TensorBox> sends, receives;  // by member
  ReduceFn reduce = nullptr;               // all_reduce and reduce_scatter
};

// Throws if the spec cannot run: member out of range, boxes outside their view, boxes missing, no reduce function, or
// views not dense.
void check(const CollectiveSpec& spec);

// Bytes of staging that this member's run needs, a multiple of 64. With r64(x) = x rounded up to a multiple of 64 and n
// members:
//   all_reduce      ring: 0; direct: (n-1) r64(min(chunk, bytes of the first range)); flat: (n-1) r64(bytes of the
//                   tensor); recursive: r64(bytes of the first n/4 ranges), 0 for two members
//                   (the first range, the longest, has ceil(elements / n) elements)
//   reduce_scatter  sum of r64(bytes) over the non-contiguous sends, including the member's own
//                   + r64(bytes of out) if out is not contiguous
//                   + direct: (n-1) r64(min(chunk, bytes of out)); ring: 2 r64(bytes of the largest send)
//   all_gather      r64(bytes of in) if in is not contiguous
//                   + sum of r64(bytes) over the non-contiguous receives, except the member's own
//   all_to_all      sum of r64(bytes) over the non-contiguous sends and receives, except the member's own
// Contiguous means that the box's elements, walked in packed order, follow each other in memory. With one member it is
// always 0. More staging is allowed: a compiler may use the bound for boxes that are all non-contiguous. `chunk` is
// rounded as in CollectiveSpec.
std::int64_t staging_bytes(const CollectiveSpec& spec);

// Bytes this member sends in one run, as its links count them. The sum over all members, with S the bytes of the whole
// tensor:
//   all_reduce ring, direct, recursive 2 (n-1) S; flat n (n-1) S; reduce_scatter, all_gather (n-1) S; all_to_all the
//   bytes that change their member.
std::int64_t bytes_sent(const CollectiveSpec& spec);
// That sum, computed from S; `own`: the bytes that stay on their member in an all_to_all (S/n if split evenly).
std::int64_t planned_bytes(CollectiveKind kind, Algorithm algorithm, int members, std::int64_t bytes,
                           std::int64_t own = 0);

// The messages of one run, in the order in which each link carries them. Each message that one member sends to another
// is a message that the other receives.
struct PlannedMessage {
  int peer = 0;
  bool sent = false;  // otherwise received
  std::int64_t bytes = 0;
};
std::vector<PlannedMessage> messages_of(const CollectiveSpec& spec);

// The members with which this member exchanges bytes; its endpoint needs links to them. The relation is symmetric.
std::vector<int> peers_of(const CollectiveSpec& spec);

// The steps of a run; see program.h.
struct Program;

// Runs the same collective any number of times. All members get the same bits, because one member reduces an element
// and the others receive its result (direct, flat: in member order 0..n-1, left to right; ring: from the owner's
// successor round to the owner; recursive: as a tree).
//   start(...); while (!advance()) <wait until the endpoint's wake was called>;
// `start` moves no data yet. Extra calls of `advance` are harmless; after each wake one call is required. An endpoint
// has at most one active run, and all members run the same sequence of collectives. After construction nothing is
// allocated. If the work of a member fails, it must still run the collective (on any input data), so that no other
// member waits in vain. If any link of the endpoint fails, `advance` throws its error (kind peer, with the peer's name)
// instead of waiting.
class CollectiveRun {
 public:
  CollectiveRun(CollectiveSpec spec, Endpoint& endpoint);
  CollectiveRun(CollectiveRun&&) noexcept;
  CollectiveRun& operator=(CollectiveRun&&) noexcept;
  ~CollectiveRun();

  void start(const std::byte* in, std::byte* out,
             std::byte* staging);  // staging: 64-byte aligned, staging_bytes(spec); may be null if 0
  // Proceeds as far as possible. True when this member has all its results and its own memory is free again.
  bool advance();
  bool active() const { return active_; }  // started and not yet done
  int awaited() const;                     // the member that it waits for; -1: none
  // Discards a run that cannot end because `advance` threw here or at a peer; all members do so, then their hub is
  // reset.
  void abandon() { active_ = false; }
  const CollectiveSpec& spec() const { return spec_; }

 private:
  CollectiveSpec spec_;
  Endpoint* endpoint_;
  std::unique_ptr<const Program> program_;
  std::size_t next_ = 0;  // the next instruction
  bool active_ = false;
  std::vector<std::int64_t> received_, sent_;  // counts of each link when the run began
  const std::byte* in_ = nullptr;
  std::byte *out_ = nullptr, *staging_ = nullptr;
};

}  // namespace karez::comm
