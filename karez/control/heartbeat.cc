// Sends heartbeats as frames of a fixed size. A heartbeat is skipped if the link has no capacity, so that sending never
// waits for another rank.
#include "karez/control/heartbeat.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "karez/base/error.h"
#include "karez/base/hash.h"

namespace karez::control {
namespace {
constexpr int depth = 4;
}  // namespace

struct Heartbeat::Frame {
  enum class Kind : std::uint32_t { heartbeat = 1, goodbye };
  Kind kind = Kind::heartbeat;
  std::uint32_t bytes = 0;
  std::array<char, 1016> text = {};

  static Frame of(Kind kind, const RankState& state) {
    Frame out;
    const std::string text = encode(state, out.text.size());
    out.kind = kind;
    out.bytes = static_cast<std::uint32_t>(text.size());
    std::memcpy(out.text.data(), text.data(), text.size());
    return out;
  }
  RankState state() const { return decode_state({text.data(), std::min<std::size_t>(bytes, text.size())}); }
};

struct Heartbeat::PeerLink {
  comm::Connection* connection = nullptr;
  comm::Link* link = nullptr;
  std::array<Frame, depth> out, in;
  std::int64_t sent = 0, consumed = 0;
  bool sent_goodbye = false, received_goodbye = false;  // after that nothing more is sent, or received
  bool lost = false;                                    // `end` does not wait for this peer
};

Heartbeat::Heartbeat(comm::Peers& peers, HangTimeouts timeouts, Callbacks callbacks)
    : peers_(peers),
      timeouts_(timeouts),
      callbacks_(std::move(callbacks)),
      hang_detector_(peers.ranks(), peers.rank(), timeouts, [&peers](int rank) { return peers.name(rank); }),
      links_(static_cast<std::size_t>(peers.ranks())),
      hub_(std::make_unique<comm::LocalHub>(peers.ranks(), std::vector<int>{peers.rank()}, depth)) {
  comm::Endpoint& endpoint = hub_->endpoint(peers.rank());
  endpoint.set_wake([this] {
    std::lock_guard lock(mutex_);
    notified_ = true;
    wake_.notify_all();
  });
  for (int rank = 0; rank < peers.ranks(); ++rank) {
    if (rank == peers.rank() || (rank != 0 && peers.rank() != 0)) continue;
    auto peer = std::make_unique<PeerLink>();
    peer->connection = &peers.control(rank);
    endpoint.connect(rank, peer->connection->open(base::hash_text("heartbeat"), depth, endpoint.notifier()));
    peer->link = &endpoint.link(rank);
    for (Frame& frame : peer->in) peer->link->post_receive(reinterpret_cast<std::byte*>(&frame), sizeof(Frame));
    links_[static_cast<std::size_t>(rank)] = std::move(peer);
  }
  thread_ = std::thread([this] { run(); });
}

Heartbeat::~Heartbeat() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Heartbeat::run() {
  using Clock = std::chrono::steady_clock;
  const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeouts_.tick()));
  for (auto due = Clock::now();;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, due, [this] { return stop_ || notified_; });
      notified_ = false;
      if (stop_) break;
    }
    poll();
    if (Clock::now() < due) continue;
    tick();
    due = Clock::now() + period;
  }
  end();
}

// Neither side may send on a link that the other side has closed. So each side sends goodbye, and closes the link when
// it has received the goodbye of the other side.
void Heartbeat::end() {
  const Frame goodbye = Frame::of(Frame::Kind::goodbye, {});
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  auto waits = [&] {
    bool pending = false;
    for (auto& peer : links_) {
      if (!peer || peer->lost || peer->link->failure() != nullptr) continue;
      if (!peer->sent_goodbye) peer->sent_goodbye = send(*peer, goodbye);
      pending |= !peer->received_goodbye || peer->link->sent() < peer->sent;
    }
    return pending;
  };
  while (waits() && std::chrono::steady_clock::now() < until) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::milliseconds(20), [this] { return notified_; });
      notified_ = false;
    }
    poll();
  }
}

void Heartbeat::tick() {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  bool halted = false;
  for (int rank = 0; rank < peers_.ranks(); ++rank) {
    // A rank other than 0 checks only rank 0 and the next rank, so that the cost stays small with many ranks on a host.
    if (rank == peers_.rank() || (peers_.rank() != 0 && rank != 0 && rank != peers_.rank() + 1)) continue;
    const bool stopped = peers_.is_stopped(rank);
    hang_detector_.set_halted(rank, stopped);
    halted |= stopped;
  }
  RankState state = own_state(now, halted);
  const Frame frame = Frame::of(Frame::Kind::heartbeat, state);
  hang_detector_.on_heartbeat(peers_.rank(), std::move(state));
  for (auto& peer : links_) {
    if (!peer || peer->sent_goodbye) continue;
    if (peer->received_goodbye) peer->sent_goodbye = send(*peer, Frame::of(Frame::Kind::goodbye, {}));
    else send(*peer, frame);
  }
  auto host_answers = [this](int rank) {
    return links_[static_cast<std::size_t>(rank)]->connection->has_recent_ack(
        comm::Seconds(timeouts_.peer_timeout / 2));
  };
  const auto diagnosis = hang_detector_.tick(now, host_answers);
  if (!diagnosis) return;
  if (diagnosis->kind != HangDiagnosis::Kind::slow_call && diagnosis->rank >= 0)
    if (auto& peer = links_[static_cast<std::size_t>(diagnosis->rank)]) peer->lost = true;
  callbacks_.on_diagnosis(*diagnosis);
}

void Heartbeat::poll() {
  hub_->endpoint(peers_.rank()).notifier().acknowledge();
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank)
    if (auto& peer = links_[static_cast<std::size_t>(rank)]) take(rank, *peer);
}

// While the rank makes progress, its waits are not collected, unless another rank is halted.
RankState Heartbeat::own_state(double now, bool with_waits) {
  RankState state = callbacks_.state(false, 0);
  if (state.progress != progress_) {
    progress_ = state.progress;
    progress_at_ = now;
  }
  return !with_waits && now - progress_at_ < timeouts_.peer_timeout / 4
             ? state
             : callbacks_.state(true, std::min(0.05, timeouts_.tick() / 2));
}

bool Heartbeat::send(PeerLink& peer, const Frame& frame) {
  if (peer.sent - peer.link->sent() >= depth) return false;  // the peer does not consume heartbeats
  Frame& slot = peer.out[static_cast<std::size_t>(peer.sent % depth)];
  slot = frame;
  try {
    peer.link->send(reinterpret_cast<const std::byte*>(&slot), sizeof(Frame));
    ++peer.sent;
  } catch (const base::Error&) {}  // the agreement reports the failure of the connection
  return true;
}

void Heartbeat::take(int rank, PeerLink& peer) {
  while (peer.consumed < peer.link->received()) {
    Frame& slot = peer.in[static_cast<std::size_t>(peer.consumed++ % depth)];
    if (slot.kind == Frame::Kind::goodbye) {
      hang_detector_.on_disconnect(rank);
      peer.received_goodbye = true;
      if (!peer.sent_goodbye) peer.sent_goodbye = send(peer, Frame::of(Frame::Kind::goodbye, {}));
      continue;
    }
    hang_detector_.on_heartbeat(rank, slot.state());
    try {
      peer.link->post_receive(reinterpret_cast<std::byte*>(&slot), sizeof(Frame));
    } catch (const base::Error&) {}  // the agreement reports this failure too
  }
}

}  // namespace karez::control
