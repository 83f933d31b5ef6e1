// Channel: the state that a connection keeps for one of its links.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/eager.h"
#include "karez/comm/transport/link.h"

namespace karez::comm {

// Both directions of one link. The connection's lock guards everything except the counters that other threads read.
struct Channel {
  struct Message {
    std::byte* into = nullptr;        // for a receive
    const std::byte* from = nullptr;  // for a send
    std::int64_t bytes = 0;
  };
  // The destination of the frame that is arriving for this channel.
  enum class Arrival { none, posted_receive, buffer };

  explicit Channel(std::uint64_t number) : number(number) {}

  std::size_t slot(std::int64_t message) const { return static_cast<std::size_t>(message) % sends.size(); }
  bool is_open() const { return notifier != nullptr; }

  const std::uint64_t number;
  Notifier* notifier = nullptr;          // null before the link is opened and after it is closed
  bool closed = false;                   // set when this end closes the link, and never reset
  std::vector<Message> sends, receives;  // rings of size `depth`: pending messages, and receives not yet filled
  std::vector<std::int64_t> credits;     // ring of size `depth`: sizes of the peer's posted receives, or unknown_size;
                                         // before the link is opened: a list of all of them

  std::int64_t send_count = 0;      // messages posted here
  std::int64_t batched_count = 0;   // messages whose bytes have all been added to batches
  std::int64_t credit_count = 0;    // receives that the peer has posted
  std::int64_t batched_bytes = 0;   // bytes of message number `batched_count` that are in batches
  std::int64_t receive_count = 0;   // receives posted here
  std::int64_t credits_due = 0;     // receives that must be announced to the peer; later ones need not be announced yet
  std::int64_t credits_sent = 0;    // receives that are announced to the peer
  std::int64_t arrived_count = 0;   // messages that have arrived
  std::int64_t arrived_bytes = 0;   // bytes of the next message that are in its posted receive
  Arrival arrival = Arrival::none;  // changed by the reading thread
  EagerSender eager_sender;
  DeferredCredits deferred_credits;
  EagerBuffer eager_buffer;
  int frames_in_batch = 0;       // frames in the batch that is being written
  int data_frames_in_batch = 0;  // of these frames, those that refer to a sender's memory
  bool close_pending = false, close_sent = false, closed_by_peer = false;
  bool queued = false;
  Channel* next = nullptr;
  std::atomic<std::int64_t> messages_received{0}, messages_sent{0}, bytes_sent{0};

  bool has_credits_to_send() const { return credits_sent < credits_due; }
  bool can_send() const {
    return batched_count < send_count &&
           (batched_count < credit_count ||
            eager_sender.may_send(sends[slot(batched_count)].bytes, batched_count, credit_count));
  }

  static constexpr std::int64_t unknown_size = -1;
};

}  // namespace karez::comm
