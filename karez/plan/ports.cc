// Constructs an actor's ports from a plan, and reports messages that break the protocol.
#include "karez/plan/ports.h"

#include <algorithm>
#include <limits>

namespace karez::plan {

PortNumbers::PortNumbers(const Plan& plan) : written_(plan.registers.size(), -1), readers_(plan.registers.size()) {
  auto is_valid = [&](RegisterId reg) {
    return reg.index >= 0 && static_cast<std::size_t>(reg.index) < plan.registers.size();
  };
  for (ActorId a : plan.actors.ids()) {
    const Actor& actor = plan.actors[a];
    for (std::size_t i = actor.outputs.size(); i-- > 0;)
      if (const RegisterId reg = actor.outputs[i].reg; is_valid(reg) && plan.registers[reg].producer == a)
        written_[reg] = static_cast<int>(i);
    for (std::size_t i = 0; i < actor.inputs.size(); ++i)
      if (is_valid(actor.inputs[i].reg)) readers_[actor.inputs[i].reg].emplace_back(a, static_cast<int>(i));
  }
  int start_count = 0, done_count = 0;
  for (RegisterId reg : plan.registers.ids()) {
    const Register& r = plan.registers[reg];
    if (r.producer == session_actor) written_[reg] = start_count++;
    if (std::find(r.consumers.begin(), r.consumers.end(), session_actor) != r.consumers.end())
      readers_[reg].insert(readers_[reg].begin(), {session_actor, done_count++});
  }
}

int PortNumbers::of_producer(const Plan& plan, RegisterId reg) const {
  require(written_[reg] >= 0, "plan: register ", reg, " (", plan.reg(reg).type,
          ") names a producer that does not list it among its outputs");
  return written_[reg];
}

int PortNumbers::of_consumer(const Plan& plan, RegisterId reg, ActorId consumer) const {
  const auto& readers = readers_[reg];
  const auto at = std::lower_bound(readers.begin(), readers.end(), std::pair(consumer, 0));
  require(at != readers.end() && at->first == consumer, "plan: register ", reg, " (", plan.reg(reg).type,
          ") names a consumer that does not list it among its inputs");
  return at->second;
}

std::string print(const Message& m) {
  if (m.kind == Message::Kind::returned) return cat("returned r", m.reg, " slot ", m.slot, " to actor ", m.to);
  return cat("filled r", m.reg, " slot ", m.slot, " piece ", m.piece, " to actor ", m.to);
}

Ports::Ports(const Plan& plan, ActorId actor, const PortNumbers& port_numbers) : actor_(actor) {
  const Actor& a = plan.actor(actor);
  for (const Port& port : a.inputs) add_input(plan, port, port_numbers);
  for (const Port& port : a.outputs) add_output(plan, port, port_numbers);
  missing_ = static_cast<std::int32_t>(inputs_.size());
}

Ports Ports::session_start(const Plan& plan, const PortNumbers& port_numbers) {
  Ports ports;
  ports.actor_ = session_actor;
  for (RegisterId i : plan.registers.ids())
    if (plan.registers[i].producer == session_actor) ports.add_output(plan, {i, 1}, port_numbers);
  return ports;
}

Ports Ports::session_done(const Plan& plan, const PortNumbers& port_numbers) {
  Ports ports;
  ports.actor_ = session_actor;
  for (RegisterId i : plan.registers.ids()) {
    const auto& consumers = plan.registers[i].consumers;
    if (std::find(consumers.begin(), consumers.end(), session_actor) != consumers.end())
      ports.add_input(plan, {i, 1}, port_numbers);
  }
  ports.missing_ = ports.input_count();
  return ports;
}

void Ports::add_input(const Plan& plan, const Port& port, const PortNumbers& port_numbers) {
  const Register& r = plan.reg(port.reg);
  require(port.period >= 1, "plan: register ", port.reg, ": the period of an input must be at least 1, got ",
          port.period);
  require(r.slots >= 1 && r.slots <= std::numeric_limits<std::int16_t>::max(), "plan: register ", port.reg, " has ",
          r.slots, " slots; the number must be between 1 and 32767");
  Input input;
  input.reg = port.reg;
  input.producer = r.producer;
  input.producer_port = port_numbers.of_producer(plan, port.reg);
  input.period = port.period;
  input.ring = static_cast<std::int32_t>(store_.size());
  input.slots = r.slots;
  input.lane = lanes_;
  lanes_ += r.slots;
  store_.resize(store_.size() + static_cast<std::size_t>(r.slots), -1);
  inputs_.push_back(input);
}

void Ports::add_output(const Plan& plan, const Port& port, const PortNumbers& port_numbers) {
  const Register& r = plan.reg(port.reg);
  require(port.period >= 1, "plan: register ", port.reg, ": the period of an output must be at least 1, got ",
          port.period);
  require(r.slots >= 1 && r.slots <= std::numeric_limits<std::int16_t>::max(), "plan: register ", port.reg, " has ",
          r.slots, " slots; the number must be between 1 and 32767");
  require(!r.consumers.empty(), "plan: register ", port.reg, " (", r.type,
          ") has no consumer, so its slots would never be returned");
  Output output;
  output.reg = port.reg;
  output.period = port.period;
  output.slots = r.slots;
  output.lane = lanes_;
  lanes_ += r.slots * static_cast<std::int32_t>(r.consumers.size());
  output.first_consumer = static_cast<std::int32_t>(consumers_.size());
  output.consumer_count = static_cast<std::int32_t>(r.consumers.size());
  for (ActorId consumer : r.consumers)
    consumers_.push_back({consumer, port_numbers.of_consumer(plan, port.reg, consumer)});
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
    out += cat("; out r", output.reg, " phase ", output.phase,
               output.phase > 0 || running_ ? cat(" writes ", output.slot) : "", " free");
    for (int i = 0; i < output.free_count; ++i) out += cat(" ", store_[output.free + i]);
    out += " held by";
    for (int slot = 0; slot < output.slots; ++slot) out += cat(" ", store_[output.holders + slot]);
  }
  return out;
}

void Ports::fail_begin() const {
  if (running_) fail("actor ", actor_, " begins while it is running");
  fail("actor ", actor_, " begins or completes out of turn: ", missing_, " of its ports are not ready");
}

void Ports::fail_take(const Message& message, const char* reason) const {
  fail("actor ", actor_, " received '", print(message), "' at port ", message.port, ", but ", reason);
}

}  // namespace karez::plan
