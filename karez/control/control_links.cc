// Sends control messages as packets of equal size, as links require, and assembles messages from received packets.
#include "karez/control/control_links.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "karez/base/text.h"

namespace karez::control {
namespace {

using Length = std::uint32_t;  // the length of the message, at the start of its first packet
constexpr std::size_t packet_bytes = sizeof(ControlLinks::Packet), max_message_bytes = 16 << 10;

}  // namespace

struct ControlLinks::PeerLink {
  comm::Notifier notifier;
  std::mutex sending;
  std::vector<Packet> out{depth}, in{depth};
  std::int64_t sent = 0, consumed = 0;
  std::vector<std::byte> message;    // the message being received
  std::size_t expected_bytes = 0;    // size of that message; 0: no message has begun
  bool broken = false;               // nothing more will arrive
  std::unique_ptr<comm::Link> link;  // last, because it uses the members above
};

ControlLinks::ControlLinks(int rank, int ranks, const Open& open, IsLost is_lost)
    : rank_(rank),
      is_lost_(std::move(is_lost)),
      links_(static_cast<std::size_t>(ranks)) {
  for (int other = 0; other < ranks; ++other) {
    if (other == rank || (other != 0 && rank != 0)) continue;
    auto peer = std::make_unique<PeerLink>();
    peer->notifier.set_wake([this, other] { on_event(other); });
    peer->link = open(other, peer->notifier);
    for (Packet& packet : peer->in) peer->link->post_receive(packet.data(), packet_bytes);
    links_[static_cast<std::size_t>(other)] = std::move(peer);
  }
}

ControlLinks::~ControlLinks() = default;

void ControlLinks::on_event(int rank) {
  std::lock_guard lock(mutex_);
  ready_ranks_.push_back(rank);
  event_.notify_one();
}

void ControlLinks::wake() {
  std::lock_guard lock(mutex_);
  wake_requested_ = true;
  event_.notify_one();
}

void ControlLinks::wait(std::optional<std::chrono::steady_clock::time_point> until) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return wake_requested_ || !ready_ranks_.empty(); };
  if (until) event_.wait_until(lock, *until, ready);
  else event_.wait(lock, ready);
  wake_requested_ = false;
  polled_ranks_.clear();
  polled_ranks_.swap(ready_ranks_);
}

// Returns false if the bytes are not a control message.
bool ControlLinks::take_packet(PeerLink& peer, std::vector<ControlMessage>& messages) {
  const Packet& packet = peer.in[static_cast<std::size_t>(peer.consumed % depth)];
  std::size_t at = 0;
  if (peer.expected_bytes == 0) {
    Length length = 0;
    std::memcpy(&length, packet.data(), sizeof length);
    if (length == 0 || length > max_message_bytes) return false;
    peer.expected_bytes = length;
    peer.message.clear();
    at = sizeof length;
  }
  const std::size_t size = std::min(peer.expected_bytes - peer.message.size(), packet_bytes - at);
  peer.message.insert(peer.message.end(), packet.begin() + static_cast<std::ptrdiff_t>(at),
                      packet.begin() + static_cast<std::ptrdiff_t>(at + size));
  if (peer.message.size() < peer.expected_bytes) return true;
  peer.expected_bytes = 0;
  std::optional<ControlMessage> message = decode_control_message(peer.message);
  if (message) messages.push_back(std::move(*message));
  return message.has_value();
}

void ControlLinks::take(const std::function<void(int rank, ControlMessage message)>& on_message,
                        const std::function<void(int rank, const Error& failure)>& on_failure) {
  std::vector<ControlMessage> messages;
  for (int rank : polled_ranks_) {
    PeerLink& peer = *links_[static_cast<std::size_t>(rank)];
    peer.notifier.acknowledge();
    if (peer.broken) continue;
    const Error* failure = peer.link->failure();  // read first, so that messages before the failure are still taken
    std::optional<Error> error;
    while (!error && peer.consumed < peer.link->received()) {
      messages.clear();
      if (!take_packet(peer, messages))
        error.emplace(ErrorKind::peer, cat("rank ", rank, " sent bytes that are not a control message"));
      Packet& packet = peer.in[static_cast<std::size_t>(peer.consumed++ % depth)];
      if (failure == nullptr) try {
          peer.link->post_receive(packet.data(), packet_bytes);
        } catch (const Error&) {}  // the link has just broken; the next call reports it
      for (ControlMessage& message : messages) on_message(rank, std::move(message));
    }
    if (failure != nullptr && !error) error = *failure;
    if (!error) continue;
    peer.broken = true;
    on_failure(rank, *error);
  }
  std::lock_guard lock(mutex_);  // wakes threads that wait for capacity to send
  capacity_.notify_all();
}

bool ControlLinks::await_capacity(int rank, PeerLink& peer) {
  const auto full = [&] { return peer.sent - peer.link->sent() >= depth; };
  while (full()) {
    if (peer.link->failure() != nullptr || is_lost_(rank)) return false;
    std::unique_lock lock(mutex_);
    if (full()) capacity_.wait_for(lock, std::chrono::milliseconds(10));
  }
  return true;
}

void ControlLinks::send(int rank, const ControlMessage& message) { send_packets(rank, packets_of(encode(message))); }

void ControlLinks::send_to_all(const ControlMessage& message) {
  const std::vector<Packet> packets = packets_of(encode(message));
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) send_packets(rank, packets);
}

void ControlLinks::send_packets(int rank, const std::vector<Packet>& packets) {
  PeerLink* peer = links_[static_cast<std::size_t>(rank)].get();
  if (peer == nullptr) return;
  std::lock_guard lock(peer->sending);
  for (const Packet& packet : packets) {
    if (!await_capacity(rank, *peer)) return;
    Packet& slot = peer->out[static_cast<std::size_t>(peer->sent % depth)];
    slot = packet;
    try {
      peer->link->send(slot.data(), packet_bytes);
      ++peer->sent;
    } catch (const Error&) { return; }  // the serving thread sees the failure
  }
}

std::vector<ControlLinks::Packet> packets_of(std::span<const std::byte> message) {
  const auto length = static_cast<Length>(message.size());
  std::vector<ControlLinks::Packet> out((sizeof length + message.size() + packet_bytes - 1) / packet_bytes);
  std::memcpy(out[0].data(), &length, sizeof length);
  for (std::size_t at = 0, offset = sizeof length; at < message.size();) {
    ControlLinks::Packet& packet = out[(at + sizeof length) / packet_bytes];
    const std::size_t size = std::min(message.size() - at, packet_bytes - offset);
    std::memcpy(packet.data() + offset, message.data() + at, size);
    at += size;
    offset = 0;
  }
  return out;
}

void ControlLinks::flush(std::chrono::steady_clock::time_point until) {
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
    PeerLink* peer = links_[static_cast<std::size_t>(rank)].get();
    if (peer == nullptr) continue;
    const auto all_left = [&] {
      std::lock_guard lock(peer->sending);
      return peer->link->sent() >= peer->sent;
    };
    while (peer->link->failure() == nullptr && !all_left() && !is_lost_(rank) &&
           std::chrono::steady_clock::now() < until) {
      std::unique_lock lock(mutex_);
      capacity_.wait_for(lock, std::chrono::milliseconds(10));
    }
  }
}

}  // namespace karez::control
