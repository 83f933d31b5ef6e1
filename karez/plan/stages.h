// The protocol of data stages, without a thread. It differs from the protocol of a plan's actors (ports.h) in that an
// act may fill no slot, a stream of elements ends, and its consumer can start it again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "karez/base/by_id.h"
#include "karez/base/id.h"
#include "karez/plan/namespace.h"

namespace karez::plan {

using StageId = Id<struct StageTag>;

// Stands for the consumer of the last stage.
inline constexpr StageId stream_reader{-1};

// A stage is an actor that fills one register. The register has one consumer.
struct Stage {
  std::string name;             // for people: "map(decode)"
  std::vector<StageId> inputs;  // the stages whose registers this stage reads
  int slots = 2;                // of its register; at least `lanes`
  int lanes = 1;                // the number of acts that may run at the same time
  // With several lanes: whether slots are filled in the order in which their acts began, or in the order in which they
  // ended.
  bool ordered = true;
};

// A tree of stages. Each stage comes after its inputs, and every stage except the last is the input of exactly one
// other stage; the reader reads the last stage.
struct StageGraph {
  ById<StageId, Stage> stages;
};
// Throws if the graph is not such a tree or if a number is out of range.
void verify(const StageGraph& graph);

// A run of a stage is one pass over its elements. The consumer starts a run; the stage then fills slots with the pieces
// of this run, numbered from 0, and ends the run with a piece that is marked `last` and holds no element (it may hold
// an error). The consumer may start the next run, or stop the current one, at any time; pieces of earlier runs that
// still arrive are returned unread.
struct StageMessage {
  enum class Kind : std::uint8_t {
    filled,    // to the consumer: the slot holds a piece
    returned,  // to the producer: the slot is free
    start,     // to the producer: begin run `run`
    stop,      // to the producer: fill no further slots, and wait for the start of the next run
  };
  Kind kind = Kind::filled;
  StageId to;              // may be stream_reader
  int port = 0;            // filled: the receiver's input
  int slot = 0;            // filled, returned
  bool last = false;       // filled
  std::int64_t run = 0;    // filled, start, stop
  std::int64_t piece = 0;  // filled: the number of earlier pieces of this run
};
std::string print(const StageMessage& message);  // "filled slot 1 piece 7 of run 2 to stage 4"

// A slot that an input holds.
struct StagePiece {
  int slot = -1;
  bool last = false;
};

// The receiving end of a register: the state of one input of a stage, or of the reader. Functions with a parameter
// `send` call send(const StageMessage&) for each message to the producer.
class StageInput {
 public:
  // `port` is the number of this input; `slots` is the number of slots of the register.
  StageInput(StageId producer, int port, int slots)
      : producer_(producer),
        port_(port),
        pieces_(static_cast<std::size_t>(slots)) {}

  // Takes a `filled` message. A piece of an earlier run is returned.
  template <class Send> void take(const StageMessage& message, Send&& send) {
    if (message.run != run_) return give_back(message.slot, send);
    check(message);
    ++piece_;
    last_received_ = message.last;
    pieces_[(first_ + count_++) % pieces_.size()] = {message.slot, message.last};
  }
  // Start the next run, or stop the current run. The pieces held are returned.
  template <class Send> void start(Send&& send) { change_run(StageMessage::Kind::start, send); }
  template <class Send> void stop(Send&& send) { change_run(StageMessage::Kind::stop, send); }
  // Removes the oldest piece. The caller returns the slot with `give_back` when it has read the element.
  StagePiece pop() {
    const StagePiece piece = pieces_[first_];
    first_ = (first_ + 1) % pieces_.size();
    --count_;
    if (piece.last) open_ = false;
    return piece;
  }
  template <class Send> void give_back(int slot, Send&& send) const {
    send(StageMessage{StageMessage::Kind::returned, producer_, 0, slot, false, 0, 0});
  }

  const StagePiece& front() const { return pieces_[first_]; }  // the oldest piece
  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }  // pieces held
  bool open() const { return open_; }           // a run has started, and its last piece has not been read
  std::int64_t run() const { return run_; }
  StageId producer() const { return producer_; }

 private:
  template <class Send> void change_run(StageMessage::Kind kind, Send&& send) {
    for (; count_ > 0; --count_, first_ = (first_ + 1) % pieces_.size()) give_back(pieces_[first_].slot, send);
    ++run_, piece_ = 0;
    open_ = kind == StageMessage::Kind::start;
    last_received_ = false;
    send(StageMessage{kind, producer_, 0, 0, false, run_, 0});
  }
  void check(const StageMessage& message) const;

  StageId producer_;
  int port_ = 0;
  std::vector<StagePiece> pieces_;  // a ring
  std::size_t first_ = 0, count_ = 0;
  std::int64_t run_ = 0, piece_ = 0;  // piece_: the next expected piece
  bool open_ = false, last_received_ = false;
};

// What an act has to do, as `StagePorts::begin` determines it.
struct StageAct {
  enum class Kind : std::uint8_t {
    start,    // begin a run: reset the stage
    stop,     // end the run early: free what the stage holds
    element,  // read at most one piece of one input, and emit at most one
  };
  Kind kind = Kind::element;
  int input = -1;             // the input that is read; -1: none
  StagePiece piece = {};      // the piece of that input
  int slot = -1;              // the output slot that the act may fill
  std::int64_t run = 0;       // of the stage
  std::int64_t sequence = 0;  // the number of earlier element acts of this run
  bool joins = false;         // it shares the lane of an act that began before it
};

// What an act has done, as the stage reports it.
struct StageResult {
  enum class Emission : std::uint8_t { nothing, element, last };
  Emission emission = Emission::nothing;
  // The input that the next act reads; -1: none. A stage with several lanes always reads input 0, or none if it has no
  // input.
  int next_input = -1;
  std::span<const int> starts = {};  // the inputs whose next run starts
  // The next act reads one of this many inputs, beginning with `next_input`: whichever holds a piece.
  int choices = 1;
};

// What a stage does between two messages or acts.
enum class StageActivity : std::uint8_t {
  inactive,  // no run is active
  acting,    // at least one act runs
  ready,     // it could act
  no_input,  // it waits for a piece
  no_slot,   // it waits for a free slot
};
inline constexpr std::size_t stage_activities = 5;

// The only thing that a stage lacks for another act.
enum class StageObstacle : std::uint8_t {
  none,   // it lacks nothing
  lane,   // the input and a slot are there, but the limit of lanes is reached
  slot,   // a lane is free and the input is there, but no slot
  input,  // a lane and a slot are free, but the input is empty
  other,  // it lacks several of them, or no run is active
};

// The state of one stage. A stage acts when an output slot is free, a lane is free, and the input that it reads next
// holds a piece. An act takes three steps, as for Ports: if `ready()`, the caller calls `begin()`, does the work, and
// calls `complete`. `take` may be called at any time. It throws for a message that breaks the protocol.
class StagePorts {
 public:
  StagePorts(const StageGraph& graph, StageId stage);

  bool ready() const {
    if (control_ != Control::none) return running_ == 0;
    return active_ && !draining_ && busy_lanes() < lane_limit_ && has_slot() &&
           (next_input_ < 0 || readable_input() >= 0);
  }
  // Whether an act can join another one that has just begun. The caller executes them together, in one lane. Only of
  // stages with several lanes, and for an element, not for the end of a run.
  bool can_join() const {
    return lanes_ > 1 && running_ > 0 && control_ == Control::none && active_ && !draining_ && has_slot() &&
           next_input_ >= 0 && !input(next_input_).empty() && !input(next_input_).front().last;
  }
  // Lower limits than the numbers of the graph: an act begins if fewer than `lanes` acts run and fewer than `slots`
  // slots are taken or filled. They only delay acts: running acts end, and filled slots are read. The limits may change
  // at any time.
  void set_limits(int lanes, int slots);
  int lane_limit() const { return lane_limit_; }
  int slot_limit() const { return slots() - unused_slots_; }
  // `send` is called with each message that follows; it must not call these ports.
  template <class Send> void take(const StageMessage& message, Send&& send);
  StageAct begin(bool joins = false);
  template <class Send> void complete(const StageAct& act, const StageResult& result, Send&& send);

  int running() const { return running_; }  // acts
  int busy_lanes() const { return running_ - joined_; }
  int input_count() const { return static_cast<int>(inputs_.size()); }
  const StageInput& input(int i) const { return inputs_[static_cast<std::size_t>(i)]; }
  int free_slots() const { return static_cast<int>(free_.size()); }
  int slots() const { return static_cast<int>(state_.size()); }
  int filled_slots() const {  // that the consumer holds
    return static_cast<int>(std::count(state_.begin(), state_.end(), SlotState::filled));
  }
  bool is_free(int slot) const { return state_[static_cast<std::size_t>(slot)] == SlotState::free; }
  bool active() const { return active_; }  // a run has begun, and its last piece has not been emitted
  bool controlled() const { return control_ != Control::none; }  // the next act is a start or a stop
  int next_input() const { return next_input_; }
  // The input that an act would read now: the next one, or one of several that hold a piece; -1: it holds none.
  int readable_input() const {
    if (choices_ == 1) return input(next_input_).empty() ? -1 : next_input_;
    return choose([](const StageInput& in) { return !in.empty(); });
  }
  bool reads_next(StageId producer) const {  // the next act reads this input, or may do so
    for (int i = 0; next_input_ >= 0 && i < choices_; ++i)
      if (const StageInput& in = input(next_input_ + i); in.producer() == producer) return in.open();
    return false;
  }
  // The first input that has not ended among those of which the next act reads one; -1: none.
  int open_input() const {
    if (next_input_ < 0) return -1;
    return choose([](const StageInput& in) { return in.open(); });
  }
  StageActivity activity() const;
  StageObstacle obstacle() const;
  std::string text() const;  // the whole state in one line

 private:
  enum class Control : std::uint8_t { none, start, stop };
  enum class SlotState : std::uint8_t { free, taken, filled };
  // The result of an act that must wait for the results of earlier acts.
  struct PendingResult {
    bool done = false;
    StageResult::Emission emission = StageResult::Emission::nothing;
    int slot = -1;
  };

  bool has_slot() const { return static_cast<int>(free_.size()) > unused_slots_; }
  void request(const StageMessage& message);
  void release(int slot) {
    state_[static_cast<std::size_t>(slot)] = SlotState::free;
    free_.push_back(slot);
  }
  void discard_pending();
  template <class Send> void fill(int slot, bool last, Send&& send);
  template <class Send> void start_inputs(std::span<const int> starts, bool stop_others, Send&& send);
  template <class Send> void emit(const StageAct& act, StageResult::Emission emission, Send&& send);
  template <class Send> void emit_last_if_idle(Send&& send);
  template <class Send> void end_run(int slot, Send&& send);
  void set_next_input(const StageResult& result);
  // The first suitable input after the one that was read last, so that none is preferred.
  template <class Suits> int choose(Suits suits) const {
    const bool within = last_read_ >= next_input_ && last_read_ < next_input_ + choices_;
    const int first = within ? last_read_ - next_input_ + 1 : 0;
    for (int i = 0; i < choices_; ++i)
      if (const int at = next_input_ + (first + i) % choices_; suits(input(at))) return at;
    return -1;
  }
  [[noreturn]] void fail_take(const StageMessage& message, const char* reason) const;

  StageId stage_, consumer_;
  int port_ = 0;  // the consumer's input
  int lanes_ = 1;
  int lane_limit_ = 1, unused_slots_ = 0;
  bool ordered_ = true;
  bool active_ = false;    // a run has begun, and its last piece has not been emitted
  bool draining_ = false;  // several lanes: no further act of this run begins
  Control control_ = Control::none;
  int running_ = 0, next_input_ = -1, choices_ = 1;
  int joined_ = 0;      // of the running acts, those that share a lane
  int last_read_ = -1;  // the input that an act read last
  std::int64_t run_ = 0, piece_ = 0, sequence_ = 0;
  std::vector<StageInput> inputs_;
  std::vector<SlotState> state_;
  std::vector<int> free_;  // a stack: the slot freed last is used first
  // Ordered lanes: a ring of the acts whose results have not been emitted, by sequence number modulo the slots. Each of
  // them has a slot, so they fit.
  std::vector<PendingResult> pending_;
  std::int64_t first_pending_ = 0;
  int last_slot_ = -1;  // unordered lanes: the slot of the last piece, which waits for the running acts
};

template <class Send> void StagePorts::take(const StageMessage& message, Send&& send) {
  switch (message.kind) {
    case StageMessage::Kind::filled:
      if (message.port < 0 || message.port >= input_count()) fail_take(message, "there is no such input");
      inputs_[static_cast<std::size_t>(message.port)].take(message, send);
      return;
    case StageMessage::Kind::returned:
      if (message.slot < 0 || message.slot >= slots()) fail_take(message, "there is no such slot");
      if (state_[static_cast<std::size_t>(message.slot)] != SlotState::filled)
        fail_take(message, "the consumer does not hold this slot");
      release(message.slot);
      return;
    case StageMessage::Kind::start:
    case StageMessage::Kind::stop: request(message); return;
  }
}

template <class Send> void StagePorts::fill(int slot, bool last, Send&& send) {
  state_[static_cast<std::size_t>(slot)] = SlotState::filled;
  send(StageMessage{StageMessage::Kind::filled, consumer_, port_, slot, last, run_, piece_++});
}

template <class Send> void StagePorts::start_inputs(std::span<const int> starts, bool stop_others, Send&& send) {
  if (stop_others)
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      bool starting = false;
      for (int start : starts) starting |= static_cast<std::size_t>(start) == i;
      if (!starting && inputs_[i].open()) inputs_[i].stop(send);
    }
  for (int start : starts) inputs_.at(static_cast<std::size_t>(start)).start(send);
}

template <class Send> void StagePorts::complete(const StageAct& act, const StageResult& result, Send&& send) {
  --running_;
  joined_ -= act.joins;
  if (act.kind != StageAct::Kind::element) {
    start_inputs(result.starts, true, send);
    if (act.kind == StageAct::Kind::start && act.run == run_ && control_ == Control::none) {
      active_ = true;
      set_next_input(lanes_ > 1 ? StageResult{.next_input = inputs_.empty() ? -1 : 0} : result);
    }
    return;
  }
  if (act.input >= 0) inputs_[static_cast<std::size_t>(act.input)].give_back(act.piece.slot, send);
  if (act.run != run_ || !active_) {  // the run was replaced, or ended by the error of an earlier act
    release(act.slot);
    return emit_last_if_idle(send);
  }
  start_inputs(result.starts, false, send);
  emit(act, result.emission, send);
  if (active_ && lanes_ == 1) set_next_input(result);
}

template <class Send> void StagePorts::end_run(int slot, Send&& send) {
  fill(slot, true, send);
  active_ = false;
  start_inputs({}, true, send);
  discard_pending();
}

template <class Send> void StagePorts::emit_last_if_idle(Send&& send) {
  if (last_slot_ < 0 || running_ > 0 || control_ != Control::none) return;
  const int slot = last_slot_;
  last_slot_ = -1;
  end_run(slot, send);
}

template <class Send> void StagePorts::emit(const StageAct& act, StageResult::Emission emission, Send&& send) {
  using Emission = StageResult::Emission;
  if (!ordered_) {
    if (emission == Emission::element) fill(act.slot, false, send);
    else if (emission == Emission::last && last_slot_ < 0) last_slot_ = act.slot, draining_ = true;
    else release(act.slot);
    return emit_last_if_idle(send);
  }
  pending_[static_cast<std::size_t>(act.sequence) % pending_.size()] = {true, emission, act.slot};
  while (true) {
    PendingResult& front = pending_[static_cast<std::size_t>(first_pending_) % pending_.size()];
    if (!front.done) return;
    front.done = false;
    ++first_pending_;
    if (front.emission == Emission::last) return end_run(front.slot, send);
    if (front.emission == Emission::element) fill(front.slot, false, send);
    else release(front.slot);
  }
}

}  // namespace karez::plan
