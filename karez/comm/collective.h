// Collectives: one member's share of an all_reduce, reduce_scatter, all_gather, all_to_all or transfer, as a state
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

// A transfer is an all_to_all in which members need not have both an `in` and an `out` (they give a view of no
// element), and most pieces are empty.
enum class CollectiveKind { all_reduce, reduce_scatter, all_gather, all_to_all, transfer };
CollectiveKind kind_from(std::string_view name);  // "all_reduce", ...
std::string_view name_of(CollectiveKind kind);

// ring       each member talks to its neighbours alone; n-1 rounds (all_reduce 2n-2); for many members. all_to_all: as
// direct direct     all pairs at once; 1 round (all_reduce 2); the better one on shared memory with few members flat
// all_reduce in one round: everyone sends all to everyone, n (n-1) S bytes; for a few bytes. Other kinds: as direct
// recursive  all_reduce of n = 2^k members by halving and doubling, 2k rounds; for few bytes among many members. All
// else: as direct
enum class Algorithm { ring, direct, flat, recursive };
Algorithm algorithm_from(std::string_view name);
std::string_view name_of(Algorithm algorithm);

// into[i] = into[i] (+ | max | min) from[i], for `count` elements. Given from outside: comm knows no element types.
using ReduceFn = void (*)(std::byte* into, const std::byte* from, std::int64_t count);

// A box of the local tensor of the member who holds it. Empty where any size is 0, or where there are no sizes though
// the tensor has rank.
struct TensorBox {
  std::vector<std::int64_t> begin, size;
  bool operator==(const TensorBox&) const = default;
};

// One collective as one member sees it. `in` and `out` must not share memory.
//   all_reduce      in, out: the same dense view on all members; no pieces; each member reduces one range of the flat
//   memory reduce_scatter  sends[m]: the box of `in` that m owns; receives[m]: all of `out`, for every m all_gather
//   sends[m]: all of `in`, for every m; receives[m]: the box of `out` that m owns all_to_all      sends[m]: the box of
//   `in` that goes to m; receives[m]: the box of `out` that comes from m
// The own piece is in both lists. A piece travels packed in the house's order: channels-last for rank 4, else
// row-major. `in` and `out` may be strided as they like (all_reduce: dense), but boxes that lie in memory in packed
// order travel without a copy.
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

// Throws on a spec that cannot run: member out of range, boxes outside their view, pieces missing, no reduce function,
// views not dense.
void check(const CollectiveSpec& spec);

// Bytes of staging that this member's run needs, a multiple of 64. With r64(x) = x rounded up to a multiple of 64, n
// members:
//   all_reduce      ring: 0; direct: (n-1) r64(min(chunk, bytes of the first range)); flat: (n-1) r64(bytes of the
//   tensor);
//                   recursive: r64(bytes of the first n/4 ranges), 0 for two members
//                   (the first range, the longest, has ceil(elements / n) elements)
//   reduce_scatter  sum of r64(bytes) over the non-contiguous sends, the own included
//                   + r64(bytes of out) if out is not contiguous
//                   + direct: (n-1) r64(min(chunk, bytes of out)); ring: 2 r64(bytes of the largest send)
//   all_gather      r64(bytes of in) if in is not contiguous + sum of r64(bytes) over the non-contiguous receives, the
//   own excepted all_to_all      sum of r64(bytes) over the non-contiguous sends and receives, the own excepted
// Contiguous: walked in packed order, the box's elements follow each other in memory. With one member always 0. More is
// welcome: a compiler may take the bound in which nothing is contiguous. `chunk` counts as CollectiveSpec says (whole
// elements).
std::int64_t staging_bytes(const CollectiveSpec& spec);

// Bytes this member sends in one run (what its links will count). Over all members they add up to, with S the bytes of
// the whole tensor:
//   all_reduce ring, direct, recursive 2 (n-1) S; flat n (n-1) S; reduce_scatter, all_gather (n-1) S; all_to_all what
//   is not a member's own.
std::int64_t bytes_sent(const CollectiveSpec& spec);
// That sum, from S; `own` is what stays at home in an all_to_all (S/n when even).
std::int64_t planned_bytes(CollectiveKind kind, Algorithm algorithm, int members, std::int64_t bytes,
                           std::int64_t own = 0);

// The messages of one run, those of each link in the order in which it carries them. What one member sends another,
// that one receives from it.
struct PlannedMessage {
  int peer = 0;
  bool sent = false;  // else received
  std::int64_t bytes = 0;
};
std::vector<PlannedMessage> messages_of(const CollectiveSpec& spec);

// The members that it exchanges bytes with: whom its endpoint needs links to. What one member says of another, that one
// says of it.
std::vector<int> peers_of(const CollectiveSpec& spec);

// What a run does, step by step; see program.h.
struct Program;

// Runs the same collective any number of times. All members get the same bits: one member reduces an element (direct,
// flat: in member order 0..n-1, left to right; ring: from its owner's successor round to the owner; recursive: as a
// tree) and the others get its result.
//   start(...); while (!advance()) <wait until the endpoint's wake was called>;
// `start` moves nothing yet. A call of `advance` too many does no harm; one is owed after each wake.
// Of one endpoint one run is active at a time, and all members run the same sequence of collectives. After construction
// nothing allocates. If a peer's work fails, let it run the collective all the same (with whatever its input holds):
// then nobody waits in vain. If a link fails, `advance` throws its error (kind peer, with the peer's name) instead of
// waiting, whichever link of the endpoint it is.
class CollectiveRun {
 public:
  CollectiveRun(CollectiveSpec spec, Endpoint& endpoint);
  CollectiveRun(CollectiveRun&&) noexcept;
  CollectiveRun& operator=(CollectiveRun&&) noexcept;
  ~CollectiveRun();

  void start(const std::byte* in, std::byte* out,
             std::byte* staging);  // staging: 64-byte aligned, staging_bytes(spec); may be null if 0
  // Goes on as far as it can. True when this member has all its results and its own memory is free again.
  bool advance();
  bool active() const { return active_; }  // started and not yet done
  int awaited() const;                     // the member without which it does not go on; -1: none
  // Forgets a run that cannot end, because `advance` threw here or at a peer; all members do, then their hub is reset.
  void abandon() { active_ = false; }
  const CollectiveSpec& spec() const { return spec_; }

 private:
  CollectiveSpec spec_;
  Endpoint* endpoint_;
  std::unique_ptr<const Program> program_;
  std::size_t next_ = 0;  // the instruction to be run next
  bool active_ = false;
  std::vector<std::int64_t> received_, sent_;  // of each link when the run began
  const std::byte* in_ = nullptr;
  std::byte *out_ = nullptr, *staging_ = nullptr;
};

}  // namespace karez::comm
