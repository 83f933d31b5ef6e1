// Bodies of acts.
#include "runtime/bodies.h"

#include "device/memory.h"
#include "runtime/host_copy.h"

namespace karez::runtime {
namespace {

void run_calls(ActorState& actor) {
  for (PreparedCall& call : actor.calls) {
    actor.at_call = call.call;
    call.run(call.args());
  }
}

void read_input(const Loaded& loaded, ActorState& actor) {
  const Feed& feed = loaded.launch.load(std::memory_order_relaxed)->feeds[static_cast<std::size_t>(actor.binding)];
  std::int64_t position = feed.position + actor.ports.acts() % actor.acts_per_launch;
  for (const BoundOperand& bound : actor.bound) feed.source->read(position, bound.begin, {bound.address, bound.view});
}

void fetch(const Loaded& loaded, const ActorState& actor) {
  HostArray& array = loaded.launch.load(std::memory_order_relaxed)->outputs[static_cast<std::size_t>(actor.binding)].second;
  const BoundOperand& bound = actor.bound[0];
  copy_tensor(array.bytes(), array.view(), bound.address, *bound.view);
}

}  // namespace

void Done::operator()(std::exception_ptr error) const {
  if (error) *error_ = std::move(error);
  box_->post(mail_);
}

void prepare_memory(ActorState& actor) {
  for (PatchedPort& port : actor.patched) {
    int slot = port.output ? actor.ports.output_slot(port.port) : actor.ports.input_slot(port.port);
    if (slot == port.slot) continue;
    port.slot = slot;
    for (Patch& patch : port.patches) *patch.cell = patch.base + slot * patch.stride;
  }
  for (const PoisonRange& range : actor.poisoned) {
    if (range.port >= 0 && !actor.ports.first_of_period(range.port)) continue;
    poison(range.base + (range.port >= 0 ? actor.ports.output_slot(range.port) * range.stride : 0), range.bytes);
  }
}

bool run_body(Part& part, ActorState& actor, Mailbox& box) {
  switch (actor.work) {
    case Work::none:
    case Work::collective: break;
    case Work::calls: run_calls(actor); break;
    case Work::later: {
      actor.at_call = actor.calls[0].call;
      Done done(&box, &actor.note, &actor.later_error);
      try {
        actor.calls[0].async->start(actor.calls[0].args(), done);
      } catch (...) { done(std::current_exception()); }
      return false;
    }
    case Work::read: read_input(*part.loaded, actor); break;
    case Work::fetch: fetch(*part.loaded, actor); break;
  }
  return true;
}

std::string where_of(const ActorState& actor) {
  const Actor& a = *actor.actor;
  switch (actor.work) {
    case Work::calls:
    case Work::later: return actor.at_call->where.empty() ? actor.at_call->kernel : actor.at_call->where;
    case Work::read: return a.where.empty() ? cat("input '", a.binding, "'") : a.where;
    case Work::fetch: return a.where.empty() ? cat("output '", a.binding, "'") : a.where;
    case Work::collective: return a.collective->where;
    case Work::none: break;
  }
  return a.where;
}

}  // namespace karez::runtime
