// Beats of fixed size, each sent only if there is room for it: a heart never waits for another one.
#include "karez/runtime/heart.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "karez/base/error.h"
#include "karez/base/hash.h"

namespace karez::runtime {
namespace {
constexpr int depth = 4;
}  // namespace

struct Heart::Beat {
  enum class Kind : std::uint32_t { beat = 1, bye };
  Kind kind = Kind::beat;
  std::uint32_t bytes = 0;
  std::array<char, 1016> text = {};

  static Beat of(Kind kind, const RankState& state) {
    Beat out;
    const std::string text = encode(state, out.text.size());
    out.kind = kind;
    out.bytes = static_cast<std::uint32_t>(text.size());
    std::memcpy(out.text.data(), text.data(), text.size());
    return out;
  }
  RankState state() const { return decode_state({text.data(), std::min<std::size_t>(bytes, text.size())}); }
};

struct Heart::Line {
  comm::Connection* connection = nullptr;
  comm::Link* link = nullptr;
  std::array<Beat, depth> out, in;
  std::int64_t sent = 0, taken = 0;
  bool said_bye = false, over = false;  // nothing goes any more; nothing comes any more
  bool lost = false;                    // nobody is waited for there
};

Heart::Heart(comm::Peers& peers, WatchLimits limits, Tell tell)
    : peers_(peers),
      limits_(limits),
      tell_(std::move(tell)),
      watch_(peers.ranks(), peers.rank(), limits, [&peers](int rank) { return peers.name(rank); }),
      lines_(static_cast<std::size_t>(peers.ranks())),
      hub_(std::make_unique<comm::LocalHub>(peers.ranks(), std::vector<int>{peers.rank()}, depth)) {
  comm::Endpoint& endpoint = hub_->endpoint(peers.rank());
  endpoint.set_wake([this] {
    std::lock_guard lock(mutex_);
    notified_ = true;
    called_.notify_all();
  });
  for (int rank = 0; rank < peers.ranks(); ++rank) {
    if (rank == peers.rank() || (rank != 0 && peers.rank() != 0)) continue;
    auto line = std::make_unique<Line>();
    line->connection = &peers.control(rank);
    endpoint.connect(rank, line->connection->open(base::hash_text("heart"), depth, endpoint.notifier()));
    line->link = &endpoint.link(rank);
    for (Beat& beat : line->in) line->link->post_receive(reinterpret_cast<std::byte*>(&beat), sizeof(Beat));
    lines_[static_cast<std::size_t>(rank)] = std::move(line);
  }
  thread_ = std::thread([this] { run(); });
}

Heart::~Heart() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  called_.notify_all();
  thread_.join();
}

void Heart::run() {
  using Clock = std::chrono::steady_clock;
  const auto every = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.tick()));
  for (auto due = Clock::now();;) {
    {
      std::unique_lock lock(mutex_);
      called_.wait_until(lock, due, [this] { return stop_ || notified_; });
      notified_ = false;
      if (stop_) break;
    }
    look();
    if (Clock::now() < due) continue;
    tick();
    due = Clock::now() + every;
  }
  end();
}

// Nobody sends to a link that is closed: each side says bye, and goes when the other has.
void Heart::end() {
  const Beat bye = Beat::of(Beat::Kind::bye, {});
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  auto waits = [&] {
    bool some = false;
    for (auto& line : lines_) {
      if (!line || line->lost || line->link->failure() != nullptr) continue;
      if (!line->said_bye) line->said_bye = send(*line, bye);
      some |= !line->over || line->link->sent() < line->sent;
    }
    return some;
  };
  while (waits() && std::chrono::steady_clock::now() < until) {
    {
      std::unique_lock lock(mutex_);
      called_.wait_for(lock, std::chrono::milliseconds(20), [this] { return notified_; });
      notified_ = false;
    }
    look();
  }
}

void Heart::tick() {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  bool halted = false;
  for (int rank = 0; rank < peers_.ranks(); ++rank) {
    // Each rank but the first looks at that and at the next one: of many ranks on a host not every one at all others.
    if (rank == peers_.rank() || (peers_.rank() != 0 && rank != 0 && rank != peers_.rank() + 1)) continue;
    const bool stopped = peers_.is_stopped(rank);
    watch_.halted(rank, stopped);
    halted |= stopped;
  }
  RankState state = own_state(now, halted);
  const Beat beat = Beat::of(Beat::Kind::beat, state);
  watch_.beat(peers_.rank(), std::move(state));
  for (auto& line : lines_) {
    if (!line || line->said_bye) continue;
    if (line->over) line->said_bye = send(*line, Beat::of(Beat::Kind::bye, {}));
    else send(*line, beat);
  }
  auto answers = [this](int rank) {
    return lines_[static_cast<std::size_t>(rank)]->connection->has_recent_ack(comm::Seconds(limits_.peer_timeout / 2));
  };
  const auto found = watch_.tick(now, answers);
  if (!found) return;
  if (found->what != WatchFinding::What::warning && found->rank >= 0)
    if (auto& line = lines_[static_cast<std::size_t>(found->rank)]) line->lost = true;
  tell_.found(*found);
}

void Heart::look() {
  hub_->endpoint(peers_.rank()).notifier().acknowledge();
  for (int rank = 0; rank < static_cast<int>(lines_.size()); ++rank)
    if (auto& line = lines_[static_cast<std::size_t>(rank)]) take(rank, *line);
}

// A rank that moves need not be asked more, unless another one stands still.
RankState Heart::own_state(double now, bool ask) {
  RankState state = tell_.state(false, 0);
  if (state.moved != moved_) {
    moved_ = state.moved;
    moved_at_ = now;
  }
  return !ask && now - moved_at_ < limits_.peer_timeout / 4 ? state
                                                            : tell_.state(true, std::min(0.05, limits_.tick() / 2));
}

bool Heart::send(Line& line, const Beat& beat) {
  if (line.sent - line.link->sent() >= depth) return false;  // it takes none: its own heart has stopped
  Beat& slot = line.out[static_cast<std::size_t>(line.sent % depth)];
  slot = beat;
  try {
    line.link->send(reinterpret_cast<const std::byte*>(&slot), sizeof(Beat));
    ++line.sent;
  } catch (const base::Error&) {}  // the agreement, on the same connection, tells
  return true;
}

void Heart::take(int rank, Line& line) {
  while (line.taken < line.link->received()) {
    Beat& slot = line.in[static_cast<std::size_t>(line.taken++ % depth)];
    if (slot.kind == Beat::Kind::bye) {
      watch_.left(rank);
      line.over = true;
      if (!line.said_bye) line.said_bye = send(line, Beat::of(Beat::Kind::bye, {}));
      continue;
    }
    watch_.beat(rank, slot.state());
    try {
      line.link->post_receive(reinterpret_cast<std::byte*>(&slot), sizeof(Beat));
    } catch (const base::Error&) {}  // likewise
  }
}

}  // namespace karez::runtime
