// Fake links, which have no peer: messages are copied to rank 0's receive buffers.
#include "karez/control/test_fake_ranks.h"

#include <array>
#include <cstring>
#include <thread>

#include "karez/base/text.h"

namespace karez::control {

class FakeRanks::FakeLink : public comm::Link {
 public:
  explicit FakeLink(comm::Notifier& notifier) : notifier_(notifier) {}

  void post_receive(std::byte* into, std::int64_t bytes) override {
    const std::int64_t message = posted_.load(std::memory_order_relaxed);
    slots_[slot(message)] = {into, bytes};
    posted_.store(message + 1, std::memory_order_release);
  }
  void send(const std::byte*, std::int64_t bytes) override {
    bytes_ += bytes;
    sent_.fetch_add(1, std::memory_order_release);
    notifier_.notify();  // as a connection does
  }
  std::int64_t received() const override {
    polls_.fetch_add(1, std::memory_order_relaxed);
    return received_.load(std::memory_order_acquire);
  }
  std::int64_t sent() const override { return sent_.load(std::memory_order_acquire); }
  std::int64_t bytes_sent() const override { return bytes_; }
  int depth() const override { return ControlLinks::depth; }

  void deliver(const std::byte* message, std::int64_t bytes) {
    const std::int64_t number = received_.load(std::memory_order_relaxed);
    while (posted_.load(std::memory_order_acquire) <= number) std::this_thread::yield();
    require(slots_[slot(number)].bytes == bytes, "fake link: expected a message of ", slots_[slot(number)].bytes,
            " bytes, got ", bytes, " bytes");
    std::memcpy(slots_[slot(number)].into, message, static_cast<std::size_t>(bytes));
    bytes_ += bytes;
    received_.store(number + 1, std::memory_order_release);
    notifier_.notify();
  }
  Counts counts() const { return {polls_, sent_, bytes_}; }

 private:
  struct Slot {
    std::byte* into = nullptr;
    std::int64_t bytes = 0;
  };
  static std::size_t slot(std::int64_t message) { return static_cast<std::size_t>(message % ControlLinks::depth); }
  comm::Notifier& notifier_;
  std::array<Slot, ControlLinks::depth> slots_;
  std::atomic<std::int64_t> posted_{0}, received_{0}, sent_{0}, bytes_{0};
  mutable std::atomic<std::int64_t> polls_{0};
};

FakeRanks::FakeRanks(int ranks) : ranks_(ranks), links_(static_cast<std::size_t>(ranks)) {
  const auto open = [this](int rank, comm::Notifier& notifier) {
    auto link = std::make_unique<FakeLink>(notifier);
    links_[static_cast<std::size_t>(rank)] = link.get();
    return link;
  };
  const auto ended = [this](std::uint64_t op, const LaunchEnd&) {
    ended_.store(op);
    ended_.notify_all();
  };
  agreement_ = std::make_unique<Agreement>(
      Agreement::Options{0, ranks, open, std::chrono::seconds(30), [](int rank) { return cat("rank ", rank); }},
      Agreement::Callbacks{ended, [](std::uint64_t, bool) {}, [](const Error&, std::optional<int>) {}});
}

FakeRanks::~FakeRanks() = default;

void FakeRanks::send(int rank, const ControlMessage& message) {
  for (const ControlLinks::Packet& packet : packets_of(encode(message)))
    links_[static_cast<std::size_t>(rank)]->deliver(packet.data(), static_cast<std::int64_t>(packet.size()));
}

void FakeRanks::launch(const std::string& what, std::uint64_t hash) {
  const std::uint64_t op = agreement_->begin({.hash = hash, .what = what});
  ControlMessage begin;
  begin.op = op;
  begin.hash = hash;
  begin.text = what;
  for (int rank = 1; rank < ranks_; ++rank) send(rank, begin);
  ControlMessage end;
  end.kind = ControlMessage::Kind::ended;
  end.op = op;
  end.rank_time.work = 1;
  agreement_->end(op, end.rank_time);
  for (int rank = 1; rank < ranks_; ++rank) send(rank, end);
  for (std::uint64_t last_op = ended_; last_op < op; last_op = ended_) ended_.wait(last_op);
}

FakeRanks::Counts FakeRanks::counts() const {
  Counts out;
  for (const FakeLink* link : links_) {
    if (link == nullptr) continue;
    const Counts counts = link->counts();
    out.polls += counts.polls;
    out.messages += counts.messages;
    out.bytes += counts.bytes;
  }
  return out;
}

}  // namespace karez::control
