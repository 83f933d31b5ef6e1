// The protocol: how an actor's ports are laid out from a plan, and what is said when a message breaks the rules.
#include "plan/ports.h"

#include <algorithm>
#include <limits>

namespace karez::plan {
namespace {

// Which port of an actor names the register; the session's ports are the start and done registers in their order.
int port_of(const std::vector<Port>& ports, RegisterId reg, const Register& r, const char* side) {
  for (std::size_t i = 0; i < ports.size(); ++i)
    if (ports[i].reg == reg) return static_cast<int>(i);
  fail("plan: register ", reg, " (", r.type, ") is not among the ", side, " of the actor it names");
}

int place_among_start(const Plan& plan, RegisterId reg) {
  int place = 0;
  for (RegisterId i : plan.registers.ids()) place += i < reg && plan.registers[i].producer == session_actor;
  return place;
}
int place_among_done(const Plan& plan, RegisterId reg) {
  int place = 0;
  for (RegisterId i : plan.registers.ids()) {
    const auto& consumers = plan.registers[i].consumers;
    place += i < reg && std::find(consumers.begin(), consumers.end(), session_actor) != consumers.end();
  }
  return place;
}

}  // namespace

std::string print(const Message& m) {
  if (m.kind == Message::Kind::returned) return cat("returned r", m.reg, " slot ", m.slot, " to actor ", m.to);
  return cat("filled r", m.reg, " slot ", m.slot, " piece ", m.piece, " to actor ", m.to);
}

Ports::Ports(const Plan& plan, ActorId actor) : actor_(actor) {
  const Actor& a = plan.actor(actor);
  for (const Port& port : a.inputs) add_input(plan, port);
  for (const Port& port : a.outputs) add_output(plan, port);
  missing_ = static_cast<std::int32_t>(inputs_.size());
}

Ports Ports::starter(const Plan& plan) {
  Ports ports;
  ports.actor_ = session_actor;
  for (RegisterId i : plan.registers.ids())
    if (plan.registers[i].producer == session_actor) ports.add_output(plan, {i, 1});
  return ports;
}

Ports Ports::ender(const Plan& plan) {
  Ports ports;
  ports.actor_ = session_actor;
  for (RegisterId i : plan.registers.ids()) {
    const auto& consumers = plan.registers[i].consumers;
    if (std::find(consumers.begin(), consumers.end(), session_actor) != consumers.end()) ports.add_input(plan, {i, 1});
  }
  ports.missing_ = ports.input_count();
  return ports;
}

void Ports::add_input(const Plan& plan, const Port& port) {
  const Register& r = plan.reg(port.reg);
  require(port.period >= 1, "plan: register ", port.reg, " is read with period ", port.period);
  require(r.slots >= 1 && r.slots <= std::numeric_limits<std::int16_t>::max(), "plan: register ", port.reg, " has ", r.slots, " slots");
  Input input;
  input.reg = port.reg;
  input.producer = r.producer;
  input.producer_port =
      r.producer == session_actor ? place_among_start(plan, port.reg) : port_of(plan.actor(r.producer).outputs, port.reg, r, "outputs");
  input.period = port.period;
  input.ring = static_cast<std::int32_t>(store_.size());
  input.slots = r.slots;
  input.lane = lanes_;
  lanes_ += r.slots;
  store_.resize(store_.size() + static_cast<std::size_t>(r.slots), -1);
  inputs_.push_back(input);
}

void Ports::add_output(const Plan& plan, const Port& port) {
  const Register& r = plan.reg(port.reg);
  require(port.period >= 1, "plan: register ", port.reg, " is written with period ", port.period);
  require(r.slots >= 1 && r.slots <= std::numeric_limits<std::int16_t>::max(), "plan: register ", port.reg, " has ", r.slots, " slots");
  require(!r.consumers.empty(), "plan: register ", port.reg, " (", r.type, ") has no consumer: its slots would never come back");
  Output output;
  output.reg = port.reg;
  output.period = port.period;
  output.slots = r.slots;
  output.lane = lanes_;
  lanes_ += r.slots * static_cast<std::int32_t>(r.consumers.size());
  output.first_consumer = static_cast<std::int32_t>(consumers_.size());
  output.consumer_count = static_cast<std::int32_t>(r.consumers.size());
  for (ActorId consumer : r.consumers) {
    int at = consumer == session_actor ? place_among_done(plan, port.reg) : port_of(plan.actor(consumer).inputs, port.reg, r, "inputs");
    consumers_.push_back({consumer, at});
  }
  output.free = static_cast<std::int32_t>(store_.size());
  output.free_count = r.slots;
  for (int slot = r.slots - 1; slot >= 0; --slot) store_.push_back(slot);  // slot 0 is taken first
  output.holders = static_cast<std::int32_t>(store_.size());
  store_.resize(store_.size() + static_cast<std::size_t>(r.slots), 0);
  outputs_.push_back(output);
}

std::string Ports::text() const {
  std::string out = cat(running_ ? "runs" : ready() ? "ready" : "waits", " acts ", acts_);
  for (const Input& input : inputs_) {
    out += cat("; in r", input.reg, " phase ", input.phase, " holds");
    for (int i = 0; i < input.count; ++i) out += cat(" ", store_[input.ring + (input.head + i) % input.slots]);
  }
  for (const Output& output : outputs_) {
    out += cat("; out r", output.reg, " phase ", output.phase, output.phase > 0 || running_ ? cat(" writes ", output.slot) : "", " free");
    for (int i = 0; i < output.free_count; ++i) out += cat(" ", store_[output.free + i]);
    out += " held by";
    for (int slot = 0; slot < output.slots; ++slot) out += cat(" ", store_[output.holders + slot]);
  }
  return out;
}

void Ports::fail_begin() const {
  if (running_) fail("actor ", actor_, " begins while it runs");
  fail("actor ", actor_, " begins or completes out of turn: ", missing_, " of its ports are not ready");
}

void Ports::fail_take(const Message& message, const char* why) const {
  fail("actor ", actor_, " was sent '", print(message), "', port ", message.port, ", but ", why);
}

}  // namespace karez::plan
