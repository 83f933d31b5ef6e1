// Bodies of acts.
#include "karez/runtime/bodies.h"

#include <cmath>

#include "karez/runtime/check_finite.h"
#include "karez/runtime/host_copy.h"
#include "karez/runtime/poison.h"
#include "karez/runtime/reader.h"

namespace karez::runtime {
namespace {

bool is_due(const ActorState& actor, const PreparedCall& call) {
  return !actor.calls_differ || call.call->acts.has(actor.act_of_launch());
}

void run_poisoned(Loaded& loaded, ActorState& actor) {
  for (std::size_t c = 0; c < actor.calls.size(); ++c) {
    if (!is_due(actor, actor.calls[c])) continue;
    actor.at_call.store(actor.calls[c].call, std::memory_order_relaxed);
    if (actor.calls[c].writes_state) loaded.note_write(actor.launch);
    poison_before(actor, static_cast<int>(c));
    actor.calls[c].run(actor.calls[c].args());
    poison_behind(actor, static_cast<int>(c));
  }
}

void run_calls(Loaded& loaded, ActorState& actor) {
  if (!actor.poisoned.empty()) return run_poisoned(loaded, actor);
  for (PreparedCall& call : actor.calls) {
    if (!is_due(actor, call)) continue;
    actor.at_call.store(call.call, std::memory_order_relaxed);
    if (call.writes_state) loaded.note_write(actor.launch);
    call.run(call.args());
  }
}

// Operands first: a call that works in place writes over them. Strange ones were blamed on who made them, or stand in
// the program (a constant); variables may have had theirs before this launch.
void run_checked(Loaded& loaded, ActorState& actor) {
  const Plan& plan = loaded.plan;
  for (PreparedCall& call : actor.calls) {
    if (!is_due(actor, call)) continue;
    actor.at_call.store(call.call, std::memory_order_relaxed);
    bool blamed = std::isinf(call.call->attrs.real("value", 0));  // a padding that was asked for
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      const View& view = call.call->in[i].view;
      const bool strange = !all_finite({call.in[i], &view});
      if (strange) require_numbers(plan, call.call->in[i], call.in[i]);
      blamed |= strange || view.count() == 0;  // of no elements a maximum is -inf
    }
    if (call.writes_state) loaded.note_write(actor.launch);
    if (!actor.poisoned.empty()) poison_before(actor, static_cast<int>(&call - actor.calls.data()));
    call.run(call.args());
    for (std::size_t i = 0; i < call.out.size() && !blamed; ++i)
      require_finite({call.out[i], &call.call->out[i].view}, "makes");
    if (!actor.poisoned.empty()) poison_behind(actor, static_cast<int>(&call - actor.calls.data()));
  }
}

void fetch(Loaded& loaded, const ActorState& actor) {
  const BoundOperand& bound = actor.bound[0];
  copy_tensor(loaded.record(actor.launch)->targets[bound.target], *bound.kept, bound.address, *bound.view);
}

}  // namespace

void Done::operator()(std::exception_ptr error) const {
  if (error) *error_ = std::move(error);
  box_->post(mail_);
}

void prepare_memory(ActorState& actor, bool poisons) {
  for (PatchedPort& port : actor.patched) {
    int slot = port.output ? actor.ports.output_slot(port.port) : actor.ports.input_slot(port.port);
    if (port.lent != nullptr) {
      for (Patch& patch : port.patches) *patch.cell = port.lent[slot] + patch.offset;
      continue;
    }
    if (slot == port.slot) continue;
    port.slot = slot;
    for (Patch& patch : port.patches) *patch.cell = patch.base + slot * patch.stride;
  }
  if (poisons && !actor.poisoned.empty()) poison_before(actor, PoisonRange::first);
}

bool run_body(Part& part, ActorState& actor, Mailbox& box) {
  switch (actor.work) {
    case Work::none:
    case Work::collective: break;
    case Work::calls: part.loaded->check_nan ? run_checked(*part.loaded, actor) : run_calls(*part.loaded, actor); break;
    case Work::later: {
      actor.at_call.store(actor.calls[0].call, std::memory_order_relaxed);
      Done done(&box, &actor.note, &actor.later_error);
      try {
        actor.calls[0].async->start(actor.calls[0].args(), done);
      } catch (...) { done(std::current_exception()); }
      return false;
    }
    case Work::read:
      if (actor.reads_slowly && part.loaded->reader != nullptr && !part.loaded->check_nan) {
        part.loaded->reader->read(part, actor, box);
        return false;
      }
      actor.reads_slowly = read_input(part, actor) > part.loaded->slow_read;
      if (part.loaded->check_nan)
        for (const BoundOperand& bound : actor.bound)
          require_finite(
              {bound.lent == nullptr ? bound.address : bound.lent[actor.ports.output_slot(bound.port)], bound.view},
              "holds");
      break;
    case Work::fetch: fetch(*part.loaded, actor); break;
  }
  return true;
}

std::string name_of_act(const ActorState& actor) {
  const char* reads = actor.work == Work::read ? "its source, " : "";
  return cat("a", actor.id, " '", actor.actor->name, "' of launch ", actor.ticket, " (", reads, where_of(actor), ")");
}

std::string where_of(const ActorState& actor) {
  const Actor& a = *actor.actor;
  switch (actor.work) {
    case Work::calls:
    case Work::later: {
      const Call* call = actor.at_call.load(std::memory_order_relaxed);
      return call == nullptr ? a.where : call->where.empty() ? call->kernel : call->where;
    }
    case Work::read: return a.where.empty() ? cat("input '", a.binding, "'") : a.where;
    case Work::fetch: return a.where.empty() ? cat("output '", a.binding, "'") : a.where;
    case Work::collective: return a.collective->where;
    case Work::none: break;
  }
  return a.where;
}

}  // namespace karez::runtime
