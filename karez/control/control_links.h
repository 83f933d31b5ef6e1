// The links for control messages: one to rank 0, or on rank 0 one to every other rank.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "karez/comm/transport/link.h"
#include "karez/control/control_message.h"
#include "karez/control/namespace.h"

namespace karez::control {

class ControlLinks {
 public:
  static constexpr int depth = 32;  // packets in flight per link
  using Packet = std::array<std::byte, 256>;

  // Opens a link of `depth` that notifies `notifier`; the other rank opens the other end in the same way.
  using Open = std::function<std::unique_ptr<comm::Link>(int rank, comm::Notifier& notifier)>;
  // If true, messages that cannot be sent to the rank are dropped. Called with no lock held.
  using IsLost = std::function<bool(int rank)>;

  ControlLinks(int rank, int ranks, const Open& open, IsLost is_lost);
  ~ControlLinks();
  ControlLinks(const ControlLinks&) = delete;
  ControlLinks& operator=(const ControlLinks&) = delete;

  // May be called from any thread. Waits while too many messages have not left yet. Sends nothing to a lost rank.
  void send(int rank, const ControlMessage& message);
  void send_to_all(const ControlMessage& message);
  // Waits until all sent messages have left, but no later than `until`.
  void flush(std::chrono::steady_clock::time_point until);

  // For the one serving thread: `wait` returns when a message may have arrived, after a call of `wake`, or at `until`.
  // Then `take` polls only the links that had an event, because rank 0 has a link to every rank, and messages arrive
  // one at a time.
  void wait(std::optional<std::chrono::steady_clock::time_point> until);
  void wake();
  void take(const std::function<void(int rank, ControlMessage message)>& on_message,
            const std::function<void(int rank, const Error& failure)>& on_failure);

 private:
  struct PeerLink;

  void on_event(int rank);
  bool take_packet(PeerLink& peer, std::vector<ControlMessage>& messages);
  bool await_capacity(int rank, PeerLink& peer);
  void send_packets(int rank, const std::vector<Packet>& packets);

  int rank_;
  IsLost is_lost_;
  std::mutex mutex_;  // guards the events below
  std::condition_variable event_, capacity_;
  std::vector<int> ready_ranks_, polled_ranks_;  // ranks whose links had an event
  bool wake_requested_ = false;
  std::vector<std::unique_ptr<PeerLink>> links_;  // by rank
};

// Splits a message into packets, because a link carries messages of one size: a short message takes one packet, a long
// one several.
std::vector<ControlLinks::Packet> packets_of(std::span<const std::byte> message);

}  // namespace karez::control
