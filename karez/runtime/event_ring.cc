// Reads event rings and begins new blocks in them.
#include "karez/runtime/event_ring.h"

#include <algorithm>
#include <bit>

#include "karez/base/error.h"

namespace karez::runtime {

std::string_view name_of(EventKind kind) {
  switch (kind) {
    case EventKind::launch_began: return "launch_began";
    case EventKind::launch_ended: return "launch_ended";
    case EventKind::began: return "began";
    case EventKind::ended: return "ended";
    case EventKind::acted: return "acted";
    case EventKind::failed: return "failed";
    case EventKind::handed: return "handed";
    case EventKind::posted: return "posted";
    case EventKind::taken: return "taken";
    case EventKind::called: return "called";
    case EventKind::used_cpu: return "used_cpu";
  }
  return "?";
}

// The ring is large enough for the requested number of entries outside the block that is being written, even if every
// entry needs a mark and a clock.
EventRing::EventRing(int entries) {
  require(entries >= 1 && entries <= 1 << 24, "event ring: the number of entries must be from 1 to ", 1 << 24, ", got ",
          entries);
  capacity_ = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(entries)));
  size_ = (static_cast<std::uint64_t>(capacity_) * 3 / (block - 2) + 3) * block;
  cells_ = std::make_unique<Cell[]>(size_);
  begin_block();
}

void EventRing::begin_block() {
  std::uint64_t number = written_.load(std::memory_order_relaxed);
  if (number - lap_ == size_) lap_ = number;
  begun_.store(number + block, std::memory_order_relaxed);
  update_time();
  write_mark(marked_);
  write_clock();
}

void EventRing::write_mark(std::uint64_t plan_ticket) {
  marked_ = plan_ticket;
  std::uint64_t before = written_.load(std::memory_order_relaxed) - extra_++;
  write(head(mark) | before, plan_ticket);
}

void EventRing::write_clock() {
  clock_due_ = false;
  ++extra_;
  write(head(clock) | time_, 0);
}

EventLog EventRing::read_cells(EventPosition& from, bool all, EventKinds kinds) const {
  std::vector<std::array<std::uint64_t, 2>> cells;
  std::uint64_t begin = 0, end = 0, first = 0;
  do {  // repeats only if the writer overwrote the whole ring during the read
    end = written_.load(std::memory_order_acquire);
    begin = std::max((end - std::min(end, size_) + block - 1) / block * block, from.cell / block * block);
    cells.resize(end - begin);
    std::uint64_t index = begin % size_;  // a division for each cell would take most of the time
    for (auto& copy : cells) {
      const Cell& cell = cells_[index];
      copy = {cell.words[0].load(std::memory_order_acquire), cell.words[1].load(std::memory_order_acquire)};
      if (++index == size_) index = 0;
    }
    // Cell n overwrites cell n - size_, so a block that was begun during the read may have torn the older cell.
    std::uint64_t begun = begun_.load(std::memory_order_acquire);
    first = std::max(begin, begun - std::min(begun, size_));
  } while (first >= end && begin < end);
  EventLog log;
  log.events.reserve(end - first);
  Event known;
  std::uint64_t entries = from.entries;
  for (std::uint64_t number = first; number < end; ++number) {
    auto [left, right] = cells[number - begin];
    auto kind = static_cast<EventKind>(left >> 60);
    auto low = static_cast<std::uint32_t>(right);
    auto high = static_cast<std::int32_t>(right >> 32);
    if (kind == mark) {
      if (number == first) entries = left & low_bits;
      if (number == first && (all || first > from.cell)) log.overwritten = entries - from.entries;
      known.ticket = low;
      known.plan = high;
      continue;
    }
    bool message = kind == EventKind::handed || kind == EventKind::posted || kind == EventKind::taken;
    if (!message) known.time = static_cast<std::int64_t>(left & low_bits);
    if (kind == clock) continue;
    ++entries;
    if (number < from.cell && !all) continue;
    ++log.entries;
    if ((kinds >> static_cast<unsigned>(kind) & 1) == 0) continue;
    Event event = known;
    event.kind = kind;
    event.piece = low;
    event.actor = ActorId(high);
    if (message) {
      event.reg = RegisterId(static_cast<std::int32_t>(left & 0xffffffff));
      event.slot = static_cast<std::int16_t>(left >> 32 & 0xffff);
      event.message = static_cast<Message::Kind>(left >> 48 & 1);
    }
    log.events.push_back(event);
  }
  from = {end, entries};
  return log;
}

EventLog EventRing::read() const {
  EventPosition oldest;
  EventLog log = read_cells(oldest, true);
  auto max_events = static_cast<std::size_t>(capacity_);
  if (log.events.size() > max_events) {
    std::size_t excess = log.events.size() - max_events;
    log.events.erase(log.events.begin(), log.events.begin() + static_cast<std::ptrdiff_t>(excess));
    log.overwritten += excess;
  }
  return log;
}

EventLog EventRing::read(EventPosition& from, EventKinds kinds) const { return read_cells(from, false, kinds); }

EventPosition EventRing::end() const {
  const std::uint64_t begun = written_.load(std::memory_order_acquire) / block * block;
  EventPosition out{begun - std::min(begun, block), 0};
  read_cells(out, true);  // counts the entries from a block that has its mark
  return out;
}

}  // namespace karez::runtime
