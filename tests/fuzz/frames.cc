// Fuzzes a connection with arbitrary bytes from its peer. The connection must deliver the messages that an independent
// oracle computes, end exactly if the oracle expects that, and write only to the memory of posted receives.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "karez/comm/transport/connection.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {
namespace {
using namespace comm;

// A wire that returns the bytes in pieces after `begin`, then nothing; it accepts all writes.
class BytesWire : public Wire {
 public:
  BytesWire(std::string_view bytes, std::size_t piece)
      : bytes_(bytes),
        piece_(piece),
        descriptor_(eventfd(0, EFD_CLOEXEC)) {}
  ~BytesWire() override { ::close(descriptor_); }
  std::int64_t read(const iovec* buffers, int parts) override {
    if (shut_) return -1;
    if (!open_) return 0;
    if (bytes_.empty()) drained_ = true;  // the reader has processed all bytes
    std::size_t remaining = piece_, bytes_read = 0;
    for (int i = 0; i < parts; ++i) {
      std::size_t step = std::min({remaining, bytes_.size(), buffers[i].iov_len});
      std::memcpy(buffers[i].iov_base, bytes_.data(), step);
      bytes_.remove_prefix(step);
      remaining -= step;
      bytes_read += step;
    }
    return static_cast<std::int64_t>(bytes_read);
  }
  std::int64_t write(const iovec* buffers, int parts) override {
    std::int64_t total = 0;
    for (int i = 0; i < parts; ++i) total += static_cast<std::int64_t>(buffers[i].iov_len);
    return total;
  }
  std::string reason() const override { return "it ended"; }
  bool wait_to_read() override { return true; }
  bool wait_to_write() override { return true; }
  int descriptor() const override { return descriptor_; }
  std::uint32_t events(bool) const override { return EPOLLIN | EPOLLET; }
  void set_busy_poll(bool) override {}
  void handle_wakeup() override {}
  void finish_writing() override { shut(); }
  bool has_recent_ack(Seconds) const override { return true; }
  void shut() override {
    shut_ = true;
    eventfd_write(descriptor_, 1);
  }
  void begin() { open_ = true; }
  bool drained() const { return drained_; }

 private:
  std::string_view bytes_;
  std::size_t piece_;
  int descriptor_;
  std::atomic<bool> open_{false}, drained_{false}, shut_{false};
};

struct PostedReceive {
  std::int64_t bytes;
  std::string memory, expected;  // each with guard bytes at the end
};
constexpr std::size_t guard = 16;
constexpr int depth = 4;

// The expected outcome: the filled receives of each channel, and whether the connection ends. It does not use the
// code of the connection.
struct FrameOracle {
  std::map<std::uint64_t, std::vector<PostedReceive>>& posted;
  std::map<std::uint64_t, std::size_t> received = {};
  std::map<std::uint64_t, std::int64_t> filled = {};
  std::map<std::uint64_t, int> credits = {}, early = {};
  std::map<std::uint64_t, std::uint64_t> early_bytes = {};
  std::set<std::uint64_t> closed = {};
  bool ends = false;

  void read(std::string_view bytes) {
    while (bytes.size() >= 24 && !ends) {
      std::uint32_t kind, length;
      std::uint64_t channel, size;
      std::memcpy(&kind, bytes.data(), 4);
      std::memcpy(&length, bytes.data() + 4, 4);
      std::memcpy(&channel, bytes.data() + 8, 8);
      std::memcpy(&size, bytes.data() + 16, 8);
      bytes.remove_prefix(24);
      if (size > (1ull << 40)) return void(ends = true);
      if (closed.count(channel) > 0) return void(ends = true);
      if (kind == 3) {
        closed.insert(channel);
        ends = length != 0 || size != 0;
        continue;
      }
      if (kind == 1) {
        ends = length > 8192 ||
               (credits[channel] += static_cast<int>(length) + 1) > (posted.count(channel) ? depth : 4096);
        continue;
      }
      auto at = posted.find(channel);
      if (kind != 2 || at == posted.end()) return void(ends = true);
      if (received[channel] == at->second.size()) {  // eager: its receive is never posted
        if (length != size || (early_bytes[channel] += size) > 65536 || ++early[channel] > 64) return void(ends = true);
        bytes.remove_prefix(std::min<std::size_t>(length, bytes.size()));
        continue;
      }
      PostedReceive& next = at->second[received[channel]];
      std::int64_t& filled_bytes = filled[channel];
      bool fits = size == static_cast<std::uint64_t>(next.bytes) && length <= (1u << 20) &&
                  filled_bytes + length <= next.bytes && (length > 0 || size == 0);
      if (!fits) return void(ends = true);
      std::size_t step = std::min<std::size_t>(length, bytes.size());
      next.expected.replace(static_cast<std::size_t>(filled_bytes), step, bytes.substr(0, step));
      bytes.remove_prefix(step);
      if (step < length) return;
      filled_bytes += length;
      if (filled_bytes < next.bytes) continue;
      filled_bytes = 0;
      ++received[channel];
    }
  }
};
}  // namespace

void fuzz_frames(std::string_view bytes) {
  if (bytes.empty()) return;
  std::size_t piece = 1 + static_cast<unsigned char>(bytes[0]) % 64 * 40;
  bytes.remove_prefix(1);
  std::map<std::uint64_t, std::vector<PostedReceive>> posted;
  for (auto [channel, size] :
       std::initializer_list<std::pair<std::uint64_t, std::int64_t>>{{1, 4}, {1, 0}, {1, 200}, {2, 3000}, {2, 8}}) {
    std::string memory(static_cast<std::size_t>(size) + guard, '\xA5');
    posted[channel].push_back({size, memory, memory});
  }
  FrameOracle oracle{.posted = posted};
  oracle.read(bytes);

  static Reactor reactor;
  auto bytes_wire = std::make_unique<BytesWire>(bytes, piece);
  BytesWire& wire = *bytes_wire;
  Connection connection(reactor, std::move(bytes_wire), "rank 1");
  Notifier notifier;
  std::map<std::uint64_t, std::unique_ptr<Link>> links;
  for (auto& [channel, list] : posted) links[channel] = connection.open(channel, depth, notifier);
  for (auto& [channel, list] : posted) {
    for (PostedReceive& p : list) links[channel]->post_receive(reinterpret_cast<std::byte*>(p.memory.data()), p.bytes);
  }
  links[1]->set_busy_poll(true);
  wire.begin();
  while (connection.failure() == nullptr && !wire.drained()) links[1]->poll();
  check_invariant((connection.failure() != nullptr) == oracle.ends,
                  "the connection must end if and only if the oracle expects it");
  for (auto& [channel, list] : posted) {
    check_invariant(links[channel]->received() == static_cast<std::int64_t>(oracle.received[channel]),
                    "the number of received messages differs from the oracle");
    for (const PostedReceive& p : list)
      check_invariant(p.memory == p.expected, "received bytes differ from the oracle, or other memory was written");
  }
}

}  // namespace karez::tests
