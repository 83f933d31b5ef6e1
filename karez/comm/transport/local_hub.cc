// Local links: sender and receiver of a message share a cell, and the later one copies the message.
#include "karez/comm/transport/local_hub.h"

#include <algorithm>
#include <atomic>

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"

namespace karez::comm {
namespace {
enum CellState : int { idle, receiver, sender };

struct Cell {
  std::atomic<int> state{idle};
  std::byte* into = nullptr;
  const std::byte* from = nullptr;
  std::int64_t receive_bytes = 0, send_bytes = 0;
};
}  // namespace

// One direction of one pair of members. Message k uses cell k mod depth. Each side counts the messages that it has
// posted, and `copied` counts the copied messages.
struct LocalChannel {
  LocalChannel(int from, int to, int depth, Notifier& sender_notifier, Notifier& receiver_notifier)
      : from_member(from),
        to_member(to),
        cells(static_cast<std::size_t>(depth)),
        sender_notifier(sender_notifier),
        receiver_notifier(receiver_notifier) {}

  Cell& free_cell(std::int64_t message, std::string_view direction) {
    auto depth = static_cast<std::int64_t>(cells.size());
    require(message - copied.load(std::memory_order_acquire) < depth, "link ", from_member, " -> ", to_member,
            ": more than ", depth, " ", direction, " are pending");
    return cells[static_cast<std::size_t>(message % depth)];
  }

  // Call from the side that comes later.
  void copy(Cell& cell) {
    require(cell.receive_bytes == cell.send_bytes, "link ", from_member, " -> ", to_member, ": a message of ",
            cell.send_bytes, " bytes does not match a receive of ", cell.receive_bytes, " bytes");
    if (cell.send_bytes > 0) copy_bytes(cell.into, cell.from, static_cast<std::size_t>(cell.send_bytes));
    bytes.fetch_add(cell.send_bytes, std::memory_order_relaxed);
    cell.state.store(idle, std::memory_order_relaxed);  // the next side that uses this cell reads `copied` first
    copied.fetch_add(1, std::memory_order_acq_rel);
  }

  void post_receive(std::byte* into, std::int64_t size) {
    Cell& cell = free_cell(receive_count, "posted receives");
    ++receive_count;
    cell.into = into;
    cell.receive_bytes = size;
    if (cell.state.exchange(receiver, std::memory_order_acq_rel) == idle) return;
    copy(cell);
    sender_notifier.notify();
  }

  void send(const std::byte* source, std::int64_t size) {
    Cell& cell = free_cell(send_count, "sends");
    ++send_count;
    cell.from = source;
    cell.send_bytes = size;
    if (cell.state.exchange(sender, std::memory_order_acq_rel) == idle) return;
    copy(cell);
    receiver_notifier.notify();
  }

  int from_member, to_member;
  std::vector<Cell> cells;
  Notifier &sender_notifier, &receiver_notifier;
  alignas(64) std::int64_t receive_count = 0;  // used by the receiving end only
  alignas(64) std::int64_t send_count = 0;     // used by the sending end only
  alignas(64) std::atomic<std::int64_t> copied{0};
  std::atomic<std::int64_t> bytes{0};
};

namespace {
class LocalLink : public Link {
 public:
  LocalLink(LocalChannel& out, LocalChannel& in) : out_(out), in_(in) {}
  void post_receive(std::byte* into, std::int64_t bytes) override { in_.post_receive(into, bytes); }
  void send(const std::byte* from, std::int64_t bytes) override { out_.send(from, bytes); }
  std::int64_t received() const override { return in_.copied.load(std::memory_order_acquire); }
  std::int64_t sent() const override { return out_.copied.load(std::memory_order_acquire); }
  std::int64_t bytes_sent() const override { return out_.bytes.load(std::memory_order_relaxed); }
  int depth() const override { return static_cast<int>(out_.cells.size()); }

 private:
  LocalChannel &out_, &in_;
};
}  // namespace

LocalHub::LocalHub(int members, std::vector<int> local_members, int depth)
    : members_(members),
      local_members_(std::move(local_members)) {
  require(members >= 1 && depth >= 1, "a hub needs at least 1 member and a depth of at least 1, got ", members,
          " members and a depth of ", depth);
  const std::size_t n = local_members_.size();
  for (std::size_t i = 0; i < n; ++i) {
    require(local_members_[i] >= 0 && local_members_[i] < members, "a hub of ", members, " members has no member ",
            local_members_[i]);
    notifiers_.push_back(std::make_unique<Notifier>());
  }
  channels_.resize(n * n);
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to)
      if (from != to)
        channels_[from * n + to] = std::make_unique<LocalChannel>(local_members_[from], local_members_[to], depth,
                                                                  *notifiers_[from], *notifiers_[to]);
  for (std::size_t i = 0; i < n; ++i) {
    endpoints_.emplace_back(local_members_[i], members, *notifiers_[i]);
    for (std::size_t peer = 0; peer < n; ++peer)
      if (peer != i)
        endpoints_[i].connect(local_members_[peer],
                              std::make_unique<LocalLink>(*channels_[i * n + peer], *channels_[peer * n + i]));
  }
}

LocalHub::~LocalHub() = default;

Endpoint& LocalHub::endpoint(int member) {
  const auto found = std::find(local_members_.begin(), local_members_.end(), member);
  require(found != local_members_.end(), "member ", member, " is not in the hub of ", local_members_.size(),
          local_members_.size() == static_cast<std::size_t>(members_) ? " members" : " local members");
  return endpoints_[static_cast<std::size_t>(found - local_members_.begin())];
}

}  // namespace karez::comm
