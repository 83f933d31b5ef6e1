// The protocol of an actor, without a thread: the messages that it accepts, when it may begin, and the messages that it
// sends when it completes.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// The two kinds of messages: `filled` goes to a consumer, `returned` to the producer. They carry numbers, never data.
struct Message {
  enum class Kind : std::uint8_t { filled, returned };
  Kind kind = Kind::filled;
  std::int16_t slot = 0;
  std::int32_t port = 0;  // of the receiver: its input (filled) or its output (returned)
  ActorId to;             // session_actor: the session itself
  RegisterId reg;
  std::int32_t lane = 0;   // a number among the sender's lanes; at most one message of a lane is in flight at any time
  std::int64_t piece = 0;  // filled: the number of earlier fills of the register
};
static_assert(sizeof(Message) <= 64 && std::is_trivially_copyable_v<Message>);
std::string print(const Message& message);  // "filled r3 slot 1 piece 7 to actor 4"

// The number of each register's port in its producer and in each of its consumers; these may be the session.
class PortNumbers {
 public:
  explicit PortNumbers(const Plan& plan);
  int of_producer(const Plan& plan, RegisterId reg) const;                    // among its outputs
  int of_consumer(const Plan& plan, RegisterId reg, ActorId consumer) const;  // among its inputs

 private:
  ById<RegisterId, int> written_;                                   // -1: no producer lists it
  ById<RegisterId, std::vector<std::pair<ActorId, int>>> readers_;  // ascending
};

// The state of one actor's ports. It allocates only when constructed and uses no thread, clock or socket.
//
//   input    slots ready to be read, in the order in which they were filled;
//            the first one is held for `period` acts and then returned
//   output   slots free to be written; one is taken at the first of `period` acts and filled at the last;
//            it is free again when every consumer has returned it
//
// An act takes three steps: when `ready()` is true, the caller calls `begin()`, does the work, and calls
// `complete(send)`. `take` may be called at any time. It throws for a message that breaks the protocol, such as a slot
// that is filled twice or returned unread, or a piece out of order.
class Ports {
 public:
  Ports(const Plan& plan, ActorId actor, const PortNumbers& port_numbers);
  Ports(const Plan& plan, ActorId actor) : Ports(plan, actor, PortNumbers(plan)) {}
  // The session as two actors: one with the `start` registers as outputs, one with the `done` registers as inputs.
  // An act of the first begins a launch; the second is ready when the launch has ended.
  static Ports session_start(const Plan& plan, const PortNumbers& port_numbers);
  static Ports session_done(const Plan& plan, const PortNumbers& port_numbers);
  static Ports session_start(const Plan& plan) { return session_start(plan, PortNumbers(plan)); }
  static Ports session_done(const Plan& plan) { return session_done(plan, PortNumbers(plan)); }

  bool ready() const { return missing_ == 0; }
  bool running() const { return running_; }
  std::int64_t acts() const { return acts_; }  // completed acts

  // Returns true if the message makes the actor ready. `take` and `complete` are always inlined: where the kind and the
  // fields of a message are known, the compiler then removes most of the code, which saves 7 of the 50 ns of a message.
  [[gnu::always_inline]] bool take(const Message& message) {
    return message.kind == Message::Kind::filled ? take_filled(message) : take_returned(message);
  }
  void begin() {
    if (missing_ != 0) [[unlikely]]
      fail_begin();
    running_ = true;
    missing_ = 1;  // not ready while the act runs
    for (Output& out : outputs_)
      if (out.phase == 0) out.slot = store_[out.free + --out.free_count];
  }
  // Calls send(const Message&) for each port whose period ends with this act: once for an input (`returned`), and once
  // for each consumer of an output (`filled`). `send` must not call these ports. Slots are returned first, so that all
  // messages of this act have been sent when the last consumer acts.
  template <class Send> void complete(Send&& send);

  int input_count() const { return static_cast<int>(inputs_.size()); }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  // Return the slot that a port uses between `begin` and `complete`.
  int input_slot(int port) const { return store_[in(port).ring + in(port).head]; }
  int output_slot(int port) const { return out(port).slot; }
  bool first_of_period(int output) const { return out(output).phase == 0; }  // true if this act took the slot
  int lanes() const { return lanes_; }

  // The functions below serve the diagnosis of stalls, and tests.
  RegisterId input_register(int port) const { return in(port).reg; }
  RegisterId output_register(int port) const { return out(port).reg; }
  ActorId producer(int input) const { return in(input).producer; }
  int filled(int input) const { return in(input).count; }  // slots held: ready, or being read
  int free_slots(int output) const { return out(output).free_count; }
  bool needs_free_slot(int output) const { return out(output).phase == 0; }  // the next act needs a free slot
  // Returns the number of consumers that have not returned the slot yet.
  int holders(int output, int slot) const { return store_[out(output).holders + slot]; }
  std::int64_t pieces(int output) const { return out(output).piece; }
  std::string text() const;  // the whole state in one line

 private:
  struct Input {
    RegisterId reg;
    ActorId producer;
    std::int32_t producer_port = 0, period = 1, phase = 0;
    std::int32_t ring = 0, slots = 1, head = 0, count = 0, lane = 0;  // ring: index in store_ of the slot numbers
    std::int64_t piece = 0;                                           // the next expected piece
  };
  struct Consumer {
    ActorId actor;
    std::int32_t port = 0;
  };
  struct Output {
    RegisterId reg;
    std::int32_t period = 1, phase = 0, slot = -1, slots = 1, lane = 0;
    std::int32_t free = 0, free_count = 0;  // index in store_ of a stack of free slots: the slot freed last, whose
                                            // memory is probably still in the cache, is used first
    std::int32_t holders = 0;               // index in store_ of the number of consumers that hold each slot
    std::int32_t first_consumer = 0, consumer_count = 0;
    std::int64_t piece = 0;
  };

  Ports() = default;
  void add_input(const Plan& plan, const Port& port, const PortNumbers& port_numbers);
  void add_output(const Plan& plan, const Port& port, const PortNumbers& port_numbers);
  const Input& in(int port) const { return inputs_[static_cast<std::size_t>(port)]; }
  const Output& out(int port) const { return outputs_[static_cast<std::size_t>(port)]; }
  [[noreturn]] void fail_begin() const;
  [[noreturn]] void fail_take(const Message& message, const char* reason) const;

  [[gnu::always_inline]] bool take_filled(const Message& m) {
    if (static_cast<std::size_t>(m.port) >= inputs_.size()) [[unlikely]]
      fail_take(m, "there is no such input");
    Input& input = inputs_[static_cast<std::size_t>(m.port)];
    if (input.reg != m.reg || m.slot < 0 || m.slot >= input.slots) [[unlikely]]
      fail_take(m, "this input reads another register or has no such slot");
    if (input.count == input.slots) [[unlikely]]
      fail_take(m, "all slots of this input are filled");
    if (input.piece != m.piece) [[unlikely]]
      fail_take(m, "this is not the piece that the input expects next");
    ++input.piece;
    std::int32_t at = input.head + input.count;
    if (at >= input.slots) at -= input.slots;
    store_[input.ring + at] = m.slot;
    return input.count++ == 0 && !running_ && --missing_ == 0;
  }
  [[gnu::always_inline]] bool take_returned(const Message& m) {
    if (static_cast<std::size_t>(m.port) >= outputs_.size()) [[unlikely]]
      fail_take(m, "there is no such output");
    Output& output = outputs_[static_cast<std::size_t>(m.port)];
    if (output.reg != m.reg || m.slot < 0 || m.slot >= output.slots) [[unlikely]]
      fail_take(m, "this output writes another register or has no such slot");
    std::int32_t& holders = store_[output.holders + m.slot];
    if (holders == 0) [[unlikely]]
      fail_take(m, "no consumer holds the slot");
    if (--holders > 0) return false;
    store_[output.free + output.free_count] = m.slot;
    return output.free_count++ == 0 && output.phase == 0 && !running_ && --missing_ == 0;
  }

  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Consumer> consumers_;
  std::vector<std::int32_t> store_;
  std::int32_t missing_ = 0;  // the number of ports that keep the actor from acting
  bool running_ = false;
  ActorId actor_;
  std::int32_t lanes_ = 0;
  std::int64_t acts_ = 0;
};

template <class Send> [[gnu::always_inline]] inline void Ports::complete(Send&& send) {
  if (!running_) [[unlikely]]
    fail_begin();
  std::int32_t missing = 0;
  for (Input& input : inputs_) {
    if (++input.phase == input.period) {
      std::int32_t slot = store_[input.ring + input.head];
      input.phase = 0;
      if (++input.head == input.slots) input.head = 0;
      --input.count;
      send(Message{Message::Kind::returned, static_cast<std::int16_t>(slot), input.producer_port, input.producer,
                   input.reg, input.lane + slot, 0});
    }
    missing += input.count == 0;
  }
  for (Output& output : outputs_) {
    if (++output.phase != output.period) continue;
    output.phase = 0;
    std::int32_t slot = output.slot, lane = output.lane + slot * output.consumer_count;
    std::int64_t piece = output.piece++;
    store_[output.holders + slot] = output.consumer_count;
    missing += output.free_count == 0;
    for (std::int32_t c = 0; c < output.consumer_count; ++c) {
      const Consumer& consumer = consumers_[static_cast<std::size_t>(output.first_consumer + c)];
      send(Message{Message::Kind::filled, static_cast<std::int16_t>(slot), consumer.port, consumer.actor, output.reg,
                   lane + c, piece});
    }
  }
  missing_ = missing;
  running_ = false;
  ++acts_;
}

}  // namespace karez::plan
