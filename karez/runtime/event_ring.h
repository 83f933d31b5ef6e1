// A worker's record of the times when its acts began and ended and of the messages that it sent and received. The
// newest entries are kept in a ring, which does not allocate memory after its construction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "karez/plan/ports.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/ticks.h"

namespace karez::runtime {

// A worker's entries are in the order in which the events took effect, so its ring determines the state of its actors'
// ports at any entry. The messages that an act sends are recorded after its `ended` entry: first those of kind
// `returned`, then those of kind `filled`.
enum class EventKind : std::uint8_t {
  launch_began,  // recorded by worker 0, like launch_ended
  launch_ended,
  began,  // an act that does work
  ended,
  acted,   // an act without work (of a state actor, or in a poisoned launch), which began and ended immediately
  failed,  // the act's work threw
  handed,  // a message to an actor of the same worker (or, on worker 0, to the session), which takes it immediately
  posted,  // a message sent to another worker
  taken,   // a message from another worker
  // Recorded during an act while a profile is on:
  called,    // a call of the act has ended; `piece` is its number within the actor
  used_cpu,  // the call that ends next has used a core for `piece` ns; not recorded for every call
};
std::string_view name_of(EventKind kind);

// A set of kinds, as bits.
using EventKinds = std::uint32_t;
constexpr EventKinds all_event_kinds = ~EventKinds{0};
constexpr EventKinds without(std::initializer_list<EventKind> kinds) {
  EventKinds out = all_event_kinds;
  for (const EventKind kind : kinds) out &= ~(EventKinds{1} << static_cast<unsigned>(kind));
  return out;
}

struct Event {
  std::int64_t time = 0;     // ns since the session was created; in the simulator, ns of virtual time
  std::uint32_t ticket = 0;  // ticket of the launch modulo 2^32 (like `piece`); 0 if the launch has none
  std::uint32_t piece = 0;   // for an act, its number within its actor; for a message, its piece
  std::int32_t plan = -1;    // the plan's number, from Session::load
  ActorId actor;             // the actor that acts, or the receiver of the message; session_actor: the session
  RegisterId reg;            // register of a message
  std::int16_t slot = -1;    // slot of a message
  EventKind kind = EventKind::acted;
  Message::Kind message = Message::Kind::filled;  // kind of a message
  bool operator==(const Event&) const = default;
};

// A place in a ring, from which to go on reading.
struct EventPosition {
  std::uint64_t cell = 0, entries = 0;  // before this place
};

// The contents of one worker's ring when it was read, oldest first.
struct EventLog {
  std::vector<Event> events;
  std::uint64_t overwritten = 0;  // the number of older entries that are lost
  std::uint64_t entries = 0;      // the number of entries that were read, also of other kinds than requested
};

// One thread writes; any thread may read at any time. An entry that is overwritten during a read counts as lost.
//
// Data that neighbouring entries share is written once. The ring is an array of blocks of 16 cells of 16 bytes. A block
// begins with a `mark` and a `clock`, so that it can be read without earlier blocks. If its contents change within the
// block, the mark or clock is written again. These are the two words of each kind of cell:
//   mark     entries before this cell      | plan, ticket       for all entries after it
//   clock    time                                               for the messages after it
//   act      kind, time                    | actor, act
//   message  kind, slot, register          | receiver, piece
class EventRing {
 public:
  explicit EventRing(int entries);  // the ring keeps at least this many

  // Reads the clock for the entries from here on. Call it where time may have passed: when work begins or ends, or when
  // mail arrives. Other entries (acts without work, messages) take only a few ns, and reading the clock for each would
  // double their cost. The clock is also read at the start of each block.
  void update_time() {
    time_ = static_cast<std::uint64_t>(ticks()) & low_bits;
    clock_due_ = true;
  }

  // Returns the ticks that were read last. Only the writer may call it.
  std::int64_t time() const { return static_cast<std::int64_t>(time_); }

  void act(EventKind kind, std::int32_t plan, std::uint64_t ticket, ActorId actor, std::int64_t act) {
    mark_launch(plan, ticket);
    write(head(kind) | time_, pair(act, actor.index));
  }
  void message(EventKind kind, std::int32_t plan, std::uint64_t ticket, const Message& m) {
    mark_launch(plan, ticket);
    if (clock_due_) write_clock();
    sent(kind, m);
  }
  // Records a message that was sent by the act whose end was recorded last. The message has that act's plan and launch.
  void sent(EventKind kind, const Message& m) {
    write(head(kind) | static_cast<std::uint64_t>(m.kind) << 48 | pair(m.reg.index, static_cast<std::uint16_t>(m.slot)),
          pair(m.piece, m.to.index));
  }
  void launch(EventKind kind, std::int32_t plan, std::uint64_t ticket) { act(kind, plan, ticket, session_actor, 0); }

  // Times are in ticks.
  EventLog read() const;
  // Reads the entries since `from`, which becomes the end of the ring. Those that were overwritten before they were
  // read count as lost. The position of a new reader is `end`. Returns only entries of these kinds.
  EventLog read(EventPosition& from, EventKinds kinds = all_event_kinds) const;
  EventPosition end() const;
  int capacity() const { return capacity_; }

 private:
  struct Cell {
    std::array<std::atomic<std::uint64_t>, 2> words;
  };
  static constexpr std::uint64_t block = 16;
  static constexpr std::uint64_t low_bits = (std::uint64_t{1} << 60) - 1;  // without the kind: 12 years of ticks
  static constexpr auto mark = static_cast<EventKind>(14), clock = static_cast<EventKind>(15);

  static std::uint64_t head(EventKind kind) { return static_cast<std::uint64_t>(kind) << 60; }
  template <class A, class B> static std::uint64_t pair(A low, B high) {
    return static_cast<std::uint32_t>(low) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32;
  }

  // The stores have release order, so a reader that sees a word of this cell also sees the earlier store to `begun_`.
  // On x86 these are plain stores.
  void write(std::uint64_t first, std::uint64_t second) {
    std::uint64_t number = written_.load(std::memory_order_relaxed);
    Cell& cell = cells_[number - lap_];
    cell.words[0].store(first, std::memory_order_release);
    cell.words[1].store(second, std::memory_order_release);
    written_.store(++number, std::memory_order_release);
    if (number % block == 0) [[unlikely]]
      begin_block();
  }
  void mark_launch(std::int32_t plan, std::uint64_t ticket) {
    if (std::uint64_t now = pair(ticket, plan); now != marked_) [[unlikely]]
      write_mark(now);
  }
  void begin_block();
  // Reads the entries of the cells from `from`, and all cells of its block if `all` is true.
  EventLog read_cells(EventPosition& from, bool all, EventKinds kinds = all_event_kinds) const;
  void write_mark(std::uint64_t plan_ticket);
  void write_clock();

  int capacity_;
  std::uint64_t size_;  // cells
  std::unique_ptr<Cell[]> cells_;
  std::uint64_t lap_ = 0;                             // the number of the cell at index 0
  std::uint64_t extra_ = 0;                           // the number of marks and clocks written so far
  std::uint64_t marked_ = 0;                          // ticket and plan of the last mark
  std::uint64_t time_ = 0;                            // ticks
  bool clock_due_ = false;                            // the clock was read, but no clock cell has the time yet
  std::atomic<std::uint64_t> begun_{0}, written_{0};  // numbers of cells: in all begun blocks, and completely written
};

}  // namespace karez::runtime
