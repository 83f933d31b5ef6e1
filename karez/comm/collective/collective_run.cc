// The collective run: executes the instructions of a program as far as messages have arrived.
#include "karez/comm/collective/collective_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"
#include "karez/comm/collective/algorithms.h"
#include "karez/comm/collective/collective_check.h"
#include "karez/comm/collective/collective_counts.h"
#include "karez/comm/collective/program.h"

namespace karez::comm {

CollectiveRun::CollectiveRun(CollectiveSpec spec, Endpoint& endpoint)
    : spec_(std::move(spec)),
      endpoint_(&endpoint),
      received_(static_cast<std::size_t>(spec_.members)),
      sent_(static_cast<std::size_t>(spec_.members)) {
  check(spec_);
  require(endpoint.member() == spec_.member && endpoint.members() == spec_.members, name_of(spec_.kind), ": member ",
          spec_.member, " of ", spec_.members, " was given the endpoint of member ", endpoint.member(), " of ",
          endpoint.members());
  int depth = std::numeric_limits<int>::max();
  for (int peer = 0; peer < spec_.members; ++peer)
    if (endpoint.has_link(peer)) depth = std::min(depth, endpoint.link(peer).depth());
  program_ = std::make_unique<const Program>(make_program(spec_, depth));
  for (const Instruction& step : program_->steps)
    if (step.opcode == Instruction::Opcode::receive || step.opcode == Instruction::Opcode::send)
      require(endpoint.has_link(step.peer), name_of(spec_.kind), ": member ", spec_.member, " of ", spec_.members,
              " has no link to member ", step.peer);
  require(program_->staging_bytes <= staging_bytes(spec_), name_of(spec_.kind), ": uses ", program_->staging_bytes,
          " bytes of staging, more than the formula's ", staging_bytes(spec_));
}

CollectiveRun::~CollectiveRun() = default;

void CollectiveRun::start(const std::byte* in, std::byte* out, std::byte* staging) {
  require(!active_, name_of(spec_.kind), ": started again before it finished");
  require(staging != nullptr || program_->staging_bytes == 0, name_of(spec_.kind), ": needs ", program_->staging_bytes,
          " bytes of staging");
  in_ = in;
  out_ = out;
  staging_ = staging;
  next_ = 0;
  active_ = true;
  for (int peer = 0; peer < spec_.members; ++peer) {
    if (!endpoint_->has_link(peer)) continue;
    received_[peer] = endpoint_->link(peer).received();
    sent_[peer] = endpoint_->link(peer).sent();
  }
}

int CollectiveRun::awaited() const {
  if (!active_ || next_ >= program_->steps.size()) return -1;
  const Instruction& step = program_->steps[next_];
  return step.opcode == Instruction::Opcode::await_received || step.opcode == Instruction::Opcode::await_sent
             ? step.peer
             : -1;
}

bool CollectiveRun::advance() {
  if (!active_) return true;
  endpoint_->notifier().acknowledge();
  // Read before the counters, because messages that arrived before a failure count.
  const bool failed = endpoint_->notifier().failed();
  auto wait = [&] {
    if (failed) endpoint_->check();
    return false;
  };
  auto source = [this](BufferOffset p) {
    return (p.memory == BufferKind::in ? in_ : p.memory == BufferKind::out ? out_ : staging_) + p.offset;
  };
  auto destination = [this](BufferOffset p) { return (p.memory == BufferKind::out ? out_ : staging_) + p.offset; };
  for (; next_ < program_->steps.size(); ++next_) {
    const Instruction& step = program_->steps[next_];
    switch (step.opcode) {
      case Instruction::Opcode::receive:
        endpoint_->link(step.peer).post_receive(destination(step.to), step.count);
        break;
      case Instruction::Opcode::send: endpoint_->link(step.peer).send(source(step.from), step.count); break;
      case Instruction::Opcode::await_received:
        if (endpoint_->link(step.peer).received() < received_[step.peer] + step.count) return wait();
        break;
      case Instruction::Opcode::await_sent:
        if (endpoint_->link(step.peer).sent() < sent_[step.peer] + step.count) return wait();
        break;
      case Instruction::Opcode::copy:
        copy_bytes(destination(step.to), source(step.from), static_cast<std::size_t>(step.count));
        break;
      case Instruction::Opcode::copy_box:
        program_->boxes[static_cast<std::size_t>(step.count)].run(source(step.from), destination(step.to));
        break;
      case Instruction::Opcode::reduce: spec_.reduce(destination(step.to), source(step.from), step.count); break;
    }
  }
  active_ = false;
  return true;
}

}  // namespace karez::comm
