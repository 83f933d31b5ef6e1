// The ring as its reader sees it.
#include "runtime/event_ring.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

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
  }
  return "?";
}

EventRing::EventRing(int entries) {
  require(entries >= 1 && entries <= 1 << 24, "an event ring of ", entries, " entries; it may have 1 to ", 1 << 24);
  auto size = std::bit_ceil(static_cast<std::uint64_t>(entries));
  mask_ = size - 1;
  cells_ = std::make_unique<Cell[]>(size);
}

Event EventRing::unpack(const std::array<std::uint64_t, 4>& words) {
  auto low = [&](int w) { return static_cast<std::uint32_t>(words[static_cast<std::size_t>(w)]); };
  auto high = [&](int w) { return static_cast<std::uint32_t>(words[static_cast<std::size_t>(w)] >> 32); };
  Event event;
  event.time = static_cast<std::int64_t>(words[0]);
  event.ticket = low(1);
  event.piece = high(1);
  event.plan = static_cast<std::int32_t>(low(2));
  event.actor = ActorId(static_cast<int>(high(2)));
  event.reg = RegisterId(static_cast<int>(low(3)));
  event.slot = static_cast<std::int16_t>(high(3) & 0xffff);
  event.kind = static_cast<EventKind>(high(3) >> 16 & 0xff);
  event.message = static_cast<Message::Kind>(high(3) >> 24);
  return event;
}

EventLog EventRing::read() const {
  EventLog log;
  std::uint64_t size = mask_ + 1, end = written_.load(std::memory_order_acquire), begin = end - std::min(end, size);
  for (std::uint64_t number = begin; number < end; ++number) {
    const Cell& cell = cells_[number & mask_];
    std::array<std::uint64_t, 4> words;
    for (std::size_t w = 0; w < words.size(); ++w) words[w] = cell.words[w].load(std::memory_order_acquire);
    log.events.push_back(unpack(words));
  }
  // Entry n lies where entry n - size lay; whatever was begun meanwhile may have torn that one.
  std::uint64_t begun = begun_.load(std::memory_order_acquire), torn = std::clamp(begun - std::min(begun, size), begin, end) - begin;
  log.events.erase(log.events.begin(), log.events.begin() + static_cast<std::ptrdiff_t>(torn));
  log.overwritten = begin + torn;
  return log;
}

}  // namespace karez::runtime
