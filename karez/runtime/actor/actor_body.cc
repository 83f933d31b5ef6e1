// Does the work of acts: calls, reads and fetches.
#include "karez/runtime/actor/actor_body.h"

#include <cmath>

#include "karez/runtime/actor/call_timer.h"
#include "karez/runtime/actor/check_finite.h"
#include "karez/runtime/actor/host_copy.h"
#include "karez/runtime/actor/poison.h"
#include "karez/runtime/actor/source_reader.h"

namespace karez::runtime {
namespace {

bool is_due(const ActorState& actor, const PreparedCall& call) {
  return !actor.calls_differ || call.call->acts.has(actor.act_of_launch());
}

void run_with_poison(LoadedPlan& loaded, ActorState& actor) {
  for (std::size_t c = 0; c < actor.calls.size(); ++c) {
    if (!is_due(actor, actor.calls[c])) continue;
    actor.at_call.store(actor.calls[c].call, std::memory_order_relaxed);
    if (actor.calls[c].writes_state) loaded.note_write(actor.launch);
    poison_before(actor, static_cast<int>(c));
    actor.calls[c].run(actor.calls[c].args());
    poison_after(actor, static_cast<int>(c));
  }
}

void run_calls(LoadedPlan& loaded, ActorState& actor) {
  if (!actor.poison_ranges.empty()) return run_with_poison(loaded, actor);
  for (PreparedCall& call : actor.calls) {
    if (!is_due(actor, call)) continue;
    actor.at_call.store(call.call, std::memory_order_relaxed);
    if (call.writes_state) loaded.note_write(actor.launch);
    call.run(call.args());
  }
}

// Runs the calls and records when they end.
void run_timed(LoadedPlan& loaded, ActorState& actor, EventRing& events) {
  CallTimer timer(loaded, actor, events);
  for (std::size_t c = 0; c < actor.calls.size(); ++c) {
    PreparedCall& call = actor.calls[c];
    if (!is_due(actor, call)) continue;
    actor.at_call.store(call.call, std::memory_order_relaxed);
    if (call.writes_state) loaded.note_write(actor.launch);
    if (!actor.poison_ranges.empty()) poison_before(actor, static_cast<int>(c));
    timer.begin(call);
    call.run(call.args());
    timer.end(call, c);
    if (!actor.poison_ranges.empty()) poison_after(actor, static_cast<int>(c));
  }
}

// Runs the calls and checks their results. Checks the operands of a call before it runs, because an in-place call
// overwrites them. A non-finite operand is not an error of the call that reads it: it was reported for the call that
// produced it, or it is a constant of the program. But NaN in a variable may be older than this launch, so it is
// reported here.
void run_checked(LoadedPlan& loaded, ActorState& actor, EventRing& events) {
  const Plan& plan = loaded.plan;
  CallTimer timer(loaded, actor, events);
  for (PreparedCall& call : actor.calls) {
    if (!is_due(actor, call)) continue;
    actor.at_call.store(call.call, std::memory_order_relaxed);
    bool non_finite_expected =
        std::isinf(call.call->attrs.real("value", 0));  // the program requested padding with infinity
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      const View& view = call.call->in[i].view;
      const bool non_finite = !all_finite({call.in[i], &view});
      if (non_finite) require_numbers(plan, call.call->in[i], call.in[i]);
      non_finite_expected |= non_finite || view.count() == 0;  // the maximum of no elements is -inf
    }
    if (call.writes_state) loaded.note_write(actor.launch);
    if (!actor.poison_ranges.empty()) poison_before(actor, static_cast<int>(&call - actor.calls.data()));
    timer.begin(call);
    call.run(call.args());
    timer.end(call, static_cast<std::size_t>(&call - actor.calls.data()));
    for (std::size_t i = 0; i < call.out.size() && !non_finite_expected; ++i)
      require_finite({call.out[i], &call.call->out[i].view}, "produces");
    if (!actor.poison_ranges.empty()) poison_after(actor, static_cast<int>(&call - actor.calls.data()));
  }
}

void fetch(LoadedPlan& loaded, const ActorState& actor) {
  const BoundOperand& bound = actor.bound[0];
  copy_tensor(loaded.record(actor.launch)->targets[bound.target], *bound.target_view, bound.address, *bound.view);
}

}  // namespace

void Completion::operator()(std::exception_ptr error) const {
  if (error) *error_ = std::move(error);
  box_->post(mail_);
}

void prepare_memory(ActorState& actor, std::span<std::byte* const> targets, bool poison) {
  for (const ResultPort& result : actor.results)
    result.slot_addresses[actor.ports.output_slot(result.port)] = targets[result.target];
  for (PatchedPort& port : actor.patched) {
    int slot = port.output ? actor.ports.output_slot(port.port) : actor.ports.input_slot(port.port);
    if (port.slot_addresses != nullptr) {
      for (Patch& patch : port.patches) *patch.cell = port.slot_addresses[slot] + patch.offset;
      continue;
    }
    if (slot == port.slot) continue;
    port.slot = slot;
    for (Patch& patch : port.patches) *patch.cell = patch.base + slot * patch.stride;
  }
  if (poison && !actor.poison_ranges.empty()) poison_before(actor, PoisonRange::first);
}

bool run_body(WorkerPlan& worker_plan, ActorState& actor, Mailbox& box, EventRing& events) {
  switch (actor.work) {
    case WorkKind::none:
    case WorkKind::collective: break;
    case WorkKind::calls:
      if (!worker_plan.loaded->observes_calls.load(std::memory_order_relaxed)) run_calls(*worker_plan.loaded, actor);
      else if (worker_plan.loaded->check_nan) run_checked(*worker_plan.loaded, actor, events);
      else run_timed(*worker_plan.loaded, actor, events);
      break;
    case WorkKind::async_call: {
      actor.at_call.store(actor.calls[0].call, std::memory_order_relaxed);
      Completion done(&box, &actor.completion, &actor.async_error);
      try {
        actor.calls[0].async->start(actor.calls[0].args(), done);
      } catch (...) { done(std::current_exception()); }
      return false;
    }
    case WorkKind::read:
      if (actor.reads_slowly && worker_plan.loaded->reader != nullptr && !worker_plan.loaded->check_nan) {
        worker_plan.loaded->reader->read(worker_plan, actor, box);
        return false;
      }
      actor.reads_slowly = read_input(worker_plan, actor) > worker_plan.loaded->slow_read;
      if (worker_plan.loaded->check_nan)
        for (const BoundOperand& bound : actor.bound)
          require_finite({bound.slot_addresses == nullptr ? bound.address
                                                          : bound.slot_addresses[actor.ports.output_slot(bound.port)],
                          bound.view},
                         "holds");
      break;
    case WorkKind::fetch: fetch(*worker_plan.loaded, actor); break;
  }
  return true;
}

std::string name_of_act(const ActorState& actor) {
  const char* reads = actor.work == WorkKind::read ? "its source, " : "";
  return cat("a", actor.id, " '", actor.actor->name, "' of launch ", actor.ticket, " (", reads, where_of(actor), ")");
}

std::string where_of(const ActorState& actor) {
  const Actor& a = *actor.actor;
  switch (actor.work) {
    case WorkKind::calls:
    case WorkKind::async_call: {
      const Call* call = actor.at_call.load(std::memory_order_relaxed);
      return call == nullptr ? a.where : call->where.empty() ? call->kernel : call->where;
    }
    case WorkKind::read: return a.where.empty() ? cat("input '", a.binding, "'") : a.where;
    case WorkKind::fetch: return a.where.empty() ? cat("output '", a.binding, "'") : a.where;
    case WorkKind::collective: return a.collective->where;
    case WorkKind::none: break;
  }
  return a.where;
}

}  // namespace karez::runtime
