// Channel table: the channels of a connection by number, with the lock that guards them and the failure that ends them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "karez/base/error.h"
#include "karez/comm/namespace.h"
#include "karez/comm/transport/channel.h"
#include "karez/comm/transport/link.h"

namespace karez::comm {

// Call all functions while holding `mutex`.
struct ChannelTable {
  explicit ChannelTable(std::string peer) : peer(std::move(peer)) {}

  // Prepares the channel of a link that is opened here. The peer may already have named the channel in a frame.
  Channel& open(std::uint64_t number, int depth, Notifier& notifier);
  Channel* find(std::uint64_t number) const;  // null if there is none
  // The channel that the peer names in a frame, created if the number is new. Null if the peer names too many channels
  // or has closed this one.
  Channel* find_or_create(std::uint64_t number);
  // Destroys the channel if both ends have closed it and none of its frames is in transit in either direction.
  void erase_if_closed(Channel& channel);

  void set_end_reason(const std::string& reason);  // only the first call has an effect
  // Reports the end to all links. Call once no thread writes to the wire; only the first call has an effect.
  void publish_failure();

  static constexpr int max_depth = 1 << 12;
  static constexpr std::size_t max_channels = 1 << 16;  // including those that only the peer has named

  const std::string peer;  // its name in errors
  std::mutex mutex;        // held for a few loads and stores, never during a call of the wire that moves bytes
  std::condition_variable closable;  // a channel has no frame in transit any more, or the connection has ended
  std::unordered_map<std::uint64_t, std::unique_ptr<Channel>> channels;
  bool ended = false;      // set by the reading thread: no posted memory is written any more
  std::string end_reason;  // set by the first thread that notices the end
  std::unique_ptr<Error> error;
  std::atomic<const Error*> failure{nullptr};  // null until the failure is published; read by any thread
};

// Returns the message of the error that a message and its receive have different sizes.
std::string size_mismatch(std::int64_t message_bytes, std::int64_t receive_bytes);

}  // namespace karez::comm
