// Collective run: one member's execution of a collective, as a state machine that never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "karez/comm/collective/collective.h"
#include "karez/comm/namespace.h"
#include "karez/comm/transport/link.h"

namespace karez::comm {

// The instructions of a run (program.h).
struct Program;

// Runs the same collective any number of times. All members get the same bits: in a flat all_reduce each member reduces
// all elements in the same order, otherwise one member reduces an element and the others receive its result. The order
// is: direct and flat, members 0..n-1, left to right; ring, from the owner's successor round to the owner; recursive, a
// tree.
//   start(...); while (!advance()) <wait until the endpoint calls its wake>;
// `start` moves no data yet. Extra calls of `advance` are harmless; at least one call is required after each wake. An
// endpoint has at most one active run, and all members run the same sequence of collectives. A run allocates no memory.
// If the work of a member fails, it must still run the collective (on any input data), because the other members wait
// for it. If any link of the endpoint fails, `advance` throws the link's error (kind peer, with the peer's name)
// instead of waiting.
class CollectiveRun {
 public:
  CollectiveRun(CollectiveSpec spec, Endpoint& endpoint);
  CollectiveRun(const CollectiveRun&) = delete;
  CollectiveRun& operator=(const CollectiveRun&) = delete;
  ~CollectiveRun();

  // `staging` is 64-byte aligned and has staging_bytes(spec) bytes; it may be null if this is 0.
  void start(const std::byte* in, std::byte* out, std::byte* staging);
  // Proceeds as far as possible. Returns true when this member has all its results and its own memory is free again.
  bool advance();
  bool active() const { return active_; }  // started and not yet done
  int awaited() const;                     // the member for which this run waits; -1 if there is none
  void abandon() { active_ = false; }      // discards a run that cannot end because `advance` threw here or at a peer
  const CollectiveSpec& spec() const { return spec_; }

 private:
  CollectiveSpec spec_;
  Endpoint* endpoint_;
  std::unique_ptr<const Program> program_;
  std::size_t next_ = 0;  // index of the next instruction
  bool active_ = false;
  std::vector<std::int64_t> received_, sent_;  // counts of each link when the run began
  const std::byte* in_ = nullptr;
  std::byte *out_ = nullptr, *staging_ = nullptr;
};

}  // namespace karez::comm
