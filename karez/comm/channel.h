// Channel: the state that a connection keeps for one of the links it carries.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "karez/comm/eager.h"
#include "karez/comm/link.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

// Both directions of one link. The connection's lock guards all but the counters that other threads read.
struct Channel {
  struct Message {
    std::byte* into = nullptr;
    const std::byte* from = nullptr;
    std::int64_t bytes = 0;
  };
  explicit Channel(std::uint64_t number) : number(number) {}

  std::size_t slot(std::int64_t message) const { return static_cast<std::size_t>(message) % out.size(); }

  const std::uint64_t number;
  Notifier* notifier = nullptr;       // null until opened
  bool closed = false;                // permanently
  std::vector<Message> out, in;       // of size `depth`: messages waiting to be sent, receives waiting to be filled
  std::vector<std::int64_t> credits;  // ring of size `depth`: sizes of the peer's posted receives, or unknown; before
                                      // opening: all of them in order

  std::int64_t sends = 0, begun = 0;       // messages posted here; of these, those whose bytes are all in batches
  std::int64_t credited = 0;               // the peer's posted receives
  std::int64_t batched_bytes = 0;          // bytes of message `begun` put into batches
  std::int64_t posted = 0, announced = 0;  // receives posted here; announced to the peer
  std::int64_t to_announce = 0;            // receives that must be announced; the peer infers the others
  std::int64_t arrived = 0, filled = 0;    // messages arrived; bytes of the current one received in posted memory
  EagerSender eager_sender;
  DeferredCredits deferred_credits;
  EagerBuffer eager_buffer;
  int in_batch = 0;       // frames in the batch that is being written
  int data_in_batch = 0;  // of these, frames that refer to a sender's memory
  bool close_pending = false, close_sent = false, peer_closed = false;
  bool queued = false;
  Channel* next = nullptr;
  std::atomic<std::int64_t> received{0}, sent{0}, bytes_sent{0};

  bool has_credits_to_send() const { return announced < to_announce; }
  bool can_send() const {
    return begun < sends && (begun < credited || eager_sender.may_send(out[slot(begun)].bytes, begun, credited));
  }

  static constexpr std::int64_t unknown = -1;
};

}  // namespace karez::comm
