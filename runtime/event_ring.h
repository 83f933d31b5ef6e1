// A worker's record of what began and ended when, and which messages it sent and took: the newest entries, in a ring that allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "plan/ports.h"
#include "runtime/ticks.h"

namespace karez::runtime {

// One worker's entries stand in the order in which they took effect, so its ring alone tells what its actors' ports held at any entry.
// The messages that an act sends follow the entry of its end: first those returned, then those filled.
enum class EventKind : std::uint8_t {
  launch_began,  // on worker 0; so is its end
  launch_ended,
  began,   // an act that does work, from here
  ended,   // to here
  acted,   // an act without work (state, a poisoned launch): it began and ended at once
  failed,  // the act's work threw
  handed,  // a message to an actor of the same worker (or, on worker 0, to the session): sent and taken at once
  posted,  // a message that is on its way to another worker
  taken,   // a message from another worker
};
std::string_view name_of(EventKind kind);

struct Event {
  std::int64_t time = 0;     // ns since the session was made; in the simulator: of virtual time
  std::uint32_t ticket = 0;  // of the launch that was in flight; 0: none yet. This and `piece` count modulo 2^32
  std::uint32_t piece = 0;   // an act's number of its actor; a message's piece
  std::int32_t plan = -1;    // as Session::load numbered it
  ActorId actor;             // who acts, or the message's receiver; session_actor: the session
  RegisterId reg;            // of a message
  std::int16_t slot = -1;    // of a message
  EventKind kind = EventKind::acted;
  Message::Kind message = Message::Kind::filled;  // of a message
  bool operator==(const Event&) const = default;
};

// What one worker's ring held when it was read, oldest first.
struct EventLog {
  std::vector<Event> events;
  std::uint64_t overwritten = 0;  // older ones that are gone
};

// One thread writes; any may read at any time: an entry that was overwritten meanwhile counts as gone.
class EventRing {
 public:
  explicit EventRing(int entries);  // at least that many

  // Takes the time for what is written from here on. To be called where time may have passed: when work begins or ends, or mail comes. What
  // lies between (acts without work, messages) takes ns, and reading the clock for each would cost as much again; every 16th entry does.
  void look_at_clock() { time_ = ticks(); }

  void act(EventKind kind, std::int32_t plan, std::uint64_t ticket, ActorId actor, std::int64_t act) {
    write(pair(ticket, act), pair(plan, actor.index), pair(-1, no_slot | tail(kind, Message::Kind::filled)));
  }
  void message(EventKind kind, std::int32_t plan, std::uint64_t ticket, const Message& m) {
    write(pair(ticket, m.piece), pair(plan, m.to.index), pair(m.reg.index, static_cast<std::uint16_t>(m.slot) | tail(kind, m.kind)));
  }
  void launch(EventKind kind, std::int32_t plan, std::uint64_t ticket) { act(kind, plan, ticket, session_actor, 0); }

  // Times are ticks still.
  EventLog read() const;
  int capacity() const { return static_cast<int>(mask_) + 1; }

 private:
  // An entry as it lies in the ring: time, then what `pair` makes of ticket and piece, plan and actor, register and the rest. Packed by
  // hand: a struct would be built in memory and read back.
  struct Cell {
    std::array<std::atomic<std::uint64_t>, 4> words;
  };
  template <class A, class B> static std::uint64_t pair(A low, B high) {
    return static_cast<std::uint32_t>(low) | static_cast<std::uint64_t>(high) << 32;
  }
  static constexpr std::uint32_t no_slot = 0xffff;
  static std::uint32_t tail(EventKind kind, Message::Kind message) {
    return static_cast<std::uint32_t>(kind) << 16 | static_cast<std::uint32_t>(message) << 24;
  }
  static Event unpack(const std::array<std::uint64_t, 4>& words);

  // A reader that sees a word of this entry sees, too, that it was begun: the releases order them. On x86 they are plain stores.
  void write(std::uint64_t ticket_piece, std::uint64_t plan_actor, std::uint64_t rest) {
    std::uint64_t number = written_.load(std::memory_order_relaxed);
    begun_.store(number + 1, std::memory_order_relaxed);
    Cell& cell = cells_[number & mask_];
    cell.words[0].store(static_cast<std::uint64_t>(time_), std::memory_order_release);
    cell.words[1].store(ticket_piece, std::memory_order_release);
    cell.words[2].store(plan_actor, std::memory_order_release);
    cell.words[3].store(rest, std::memory_order_release);
    written_.store(number + 1, std::memory_order_release);
    if ((number & 15) == 15) [[unlikely]]
      look_at_clock();
  }

  std::uint64_t mask_;
  std::unique_ptr<Cell[]> cells_;
  std::int64_t time_ = ticks();
  std::atomic<std::uint64_t> begun_{0}, written_{0};  // entries ever
};

}  // namespace karez::runtime
