// The links that carry control messages: one link to rank 0, or on rank 0 one link to every other rank.
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

  // Opens a link to the rank for `depth` packets in flight. The link signals its events to `notifier`. The
  // other rank opens the other end in the same way.
  using Open = std::function<std::unique_ptr<comm::Link>(int rank, comm::Notifier& notifier)>;
  // If it returns true, messages that cannot be sent to the rank are dropped. Called with no lock held.
  using IsLost = std::function<bool(int rank)>;

  ControlLinks(int rank, int ranks, const Open& open, IsLost is_lost);
  ~ControlLinks();
  ControlLinks(const ControlLinks&) = delete;
  ControlLinks& operator=(const ControlLinks&) = delete;

  // May be called from any thread. Waits until the link has capacity; if the link breaks or the rank is lost before
  // that, drops the message.
  void send(int rank, const ControlMessage& message);
  void send_to_all(const ControlMessage& message);
  // Waits until the links have sent all messages, but not longer than until the time `until`.
  void flush(std::chrono::steady_clock::time_point until);

  // One thread serves the links and calls `wait` and `take` in turn. `wait` returns when a message may have arrived,
  // after a call of `wake`, or at `until`. Then `take` polls only the links that had an event: polling all links would
  // be slow on rank 0, which has a link to every rank and usually receives one message at a time.
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

// Splits a message into packets, because all packets on a link have the same size. A short message takes one packet, a
// long one several.
std::vector<ControlLinks::Packet> packets_of(std::span<const std::byte> message);

}  // namespace karez::control
