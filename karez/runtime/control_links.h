// The links on which notes go: to rank 0, and at rank 0 to every other rank.
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

#include "karez/comm/link.h"
#include "karez/runtime/control_message.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

class ControlLinks {
 public:
  static constexpr int depth = 32;  // messages that wait at once on a link
  using Packet = std::array<std::byte, 256>;

  // Opens a link of `depth` whose other end opens it alike, and which notifies `bell`.
  using Open = std::function<std::unique_ptr<comm::Link>(int rank, comm::Notifier& notifier)>;
  // Where it holds, what cannot be sent to the rank is given up. Called with no lock held.
  using IsLost = std::function<bool(int rank)>;

  ControlLinks(int rank, int ranks, const Open& open, IsLost is_lost);
  ~ControlLinks();
  ControlLinks(const ControlLinks&) = delete;
  ControlLinks& operator=(const ControlLinks&) = delete;

  // From any thread. Waits where many messages have not left yet. To a rank that is gone nothing is said.
  void send(int rank, const ControlMessage& message);
  void send_to_all(const ControlMessage& message);
  // Until what was sent has left, at most so long.
  void flush(std::chrono::steady_clock::time_point until);

  // For the one thread that serves: `wait` returns when something may have come, or somebody called `wake`, or it is
  // `until`. Then `take` looks at the links on which something happened, and no others: rank 0 has as many as there are
  // ranks, and their notes come one by one.
  void wait(std::optional<std::chrono::steady_clock::time_point> until);
  void wake();
  void take(const std::function<void(int rank, ControlMessage message)>& come,
            const std::function<void(int rank, const Error& failure)>& failed);

 private:
  struct PeerLink;

  void happened(int rank);
  bool take_packet(PeerLink& peer, std::vector<ControlMessage>& messages);
  bool await_capacity(int rank, PeerLink& peer);
  void send_packets(int rank, const std::vector<Packet>& packets);

  int rank_;
  IsLost is_lost_;
  std::mutex mutex_;  // of what happened
  std::condition_variable happened_, capacity_;
  std::vector<int> ready_, looked_at_;  // ranks on whose links something happened
  bool woken_ = false;
  std::vector<std::unique_ptr<PeerLink>> links_;  // by rank
};

// A link wants messages of one size: a short note takes one, a long one several.
std::vector<ControlLinks::Packet> packets_of(std::span<const std::byte> message);

}  // namespace karez::runtime
