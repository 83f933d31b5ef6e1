// Finds the memory that an act poisons, and poisons it.
#include "karez/runtime/actor/poison.h"

#include <algorithm>

#include "karez/device/memory.h"

namespace karez::runtime {
namespace {

bool in_arena(const Plan& plan, BlockId b) {
  return b.valid() && (plan.block(b).kind == BlockKind::reg || plan.block(b).kind == BlockKind::scratch);
}

bool overlap(const Operand& a, const Operand& b) {
  return a.block == b.block && a.offset < b.offset + b.view.bytes() && b.offset < a.offset + a.view.bytes();
}

// Returns the first and the last call of an act that have an operand for which `predicate` holds.
template <class Predicate> std::pair<int, int> calls_that(const Actor& actor, Predicate predicate) {
  std::pair<int, int> calls(PoisonRange::first, PoisonRange::last);
  for (std::size_t c = 0; c < actor.calls.size(); ++c) {
    const Call& call = actor.calls[c];
    if (!std::any_of(call.in.begin(), call.in.end(), predicate) &&
        !std::any_of(call.out.begin(), call.out.end(), predicate) && !(call.workspace && predicate(*call.workspace)))
      continue;
    if (!call.acts.all()) return {PoisonRange::first, PoisonRange::last};  // the calls differ between acts
    if (calls.first == PoisonRange::first) calls.first = static_cast<int>(c);
    calls.second = static_cast<int>(c);
  }
  return calls;
}

class PoisonAnalysis {
 public:
  PoisonAnalysis(LoadedPlan& loaded, ActorState& actor) : loaded_(loaded), plan_(loaded.plan), a_(actor) {}

  void run() {
    const bool asynchronous = a_.work == WorkKind::async_call;  // its only call begins and ends with the act
    for (std::size_t o = 0; o < a_.actor->outputs.size(); ++o) {
      const Port& port = a_.actor->outputs[o];
      const int call = calls_that(*a_.actor, [&](const Operand& x) { return x.reg == port.reg; }).first;
      add_register_range(port, static_cast<int>(o), true, port.period > 1 || asynchronous ? PoisonRange::first : call);
    }
    for (std::size_t i = 0; i < a_.actor->inputs.size(); ++i) {
      const Port& port = a_.actor->inputs[i];
      if (port.period != 1) continue;
      const int call = calls_that(*a_.actor, [&](const Operand& x) { return x.reg == port.reg; }).second;
      add_register_range(port, static_cast<int>(i), false, asynchronous ? PoisonRange::last : call);
    }
    if (!asynchronous) add_fixed_ranges();
    if (a_.actor->collective && a_.actor->collective->staging)
      add_fixed_range(*a_.actor->collective->staging, PoisonRange::first, false);
    std::stable_sort(a_.poison_ranges.begin(), a_.poison_ranges.end(),
                     [](const PoisonRange& x, const PoisonRange& y) { return x.call < y.call; });
  }

 private:
  void add_register_range(const Port& port, int number, bool output, int call) {
    const Register& r = plan_.reg(port.reg);
    if (r.bytes == 0 || !in_arena(plan_, r.block)) return;
    a_.poison_ranges.push_back({call, !output, number, output, loaded_.block_address[r.block] + r.offset, r.stride,
                                r.bytes, loaded_.readers[port.reg].data(), static_cast<int>(r.consumers.size())});
  }
  void add_fixed_range(const Operand& o, int call, bool dead) {
    if (in_arena(plan_, o.block) && o.view.bytes() > 0 && !used_in_some_acts(o))
      a_.poison_ranges.push_back(
          {call, dead, -1, false, loaded_.block_address[o.block] + o.offset, 0, o.view.bytes(), nullptr, 0});
  }

  // True if a call that runs only in some acts uses the operand: then its next reader or writer differs between acts.
  bool used_in_some_acts(const Operand& o) const {
    auto same = [&](const Operand& other) { return overlap(other, o); };
    return std::any_of(a_.actor->calls.begin(), a_.actor->calls.end(), [&](const Call& call) {
      return !call.acts.all() &&
             (std::any_of(call.in.begin(), call.in.end(), same) ||
              std::any_of(call.out.begin(), call.out.end(), same) || (call.workspace && same(*call.workspace)));
    });
  }

  // An operand is dead after a call if no later call reads it before another call writes it.
  bool read_later(const Operand& o, std::size_t call) const {
    for (std::size_t c = call + 1; c < a_.actor->calls.size(); ++c)
      for (const Operand& in : a_.actor->calls[c].in)
        if (overlap(in, o)) { return !written_between(o, call, c); }
    return false;
  }
  bool written_between(const Operand& o, std::size_t after, std::size_t before) const {
    for (std::size_t c = after + 1; c < before; ++c)
      for (const Operand& out : a_.actor->calls[c].out)
        if (out.block == o.block && is_dense(out) && out.offset <= o.offset &&
            o.offset + o.view.bytes() <= out.offset + out.view.bytes())
          return true;
    return false;
  }
  static bool is_dense(const Operand& o) { return o.view.bytes() == o.view.count() * size_of(o.view.dtype); }

  void add_fixed_ranges() {
    for (std::size_t c = 0; c < a_.actor->calls.size(); ++c) {
      const Call& call = a_.actor->calls[c];
      const int at = static_cast<int>(c);
      for (const Operand& out : call.out) {
        const bool in_place =
            std::any_of(call.in.begin(), call.in.end(), [&](const Operand& in) { return overlap(in, out); });
        if (is_dense(out) && !in_place) add_fixed_range(out, at, false);
        if (!read_later(out, c)) add_fixed_range(out, at, true);
      }
      for (const Operand& in : call.in)
        if (!read_later(in, c) &&
            std::none_of(call.out.begin(), call.out.end(), [&](const Operand& out) { return overlap(in, out); }))
          add_fixed_range(in, at, true);
      if (call.workspace) add_fixed_range(*call.workspace, at, false), add_fixed_range(*call.workspace, at, true);
    }
  }

  LoadedPlan& loaded_;
  const Plan& plan_;
  ActorState& a_;
};

void poison_range(const ActorState& actor, const PoisonRange& range) {
  int slot = 0;
  if (range.port >= 0) slot = range.output ? actor.ports.output_slot(range.port) : actor.ports.input_slot(range.port);
  if (range.output) {
    if (!actor.ports.first_of_period(range.port)) return;
    range.readers[slot].store(range.consumers, std::memory_order_release);
  } else if (range.readers != nullptr && range.readers[slot].fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;  // other consumers have not read the slot yet
  }
  device::poison(range.base + slot * range.stride, range.bytes);
}

void poison_ranges(const ActorState& actor, int call, bool dead) {
  auto at = std::lower_bound(actor.poison_ranges.begin(), actor.poison_ranges.end(), call,
                             [](const PoisonRange& r, int c) { return r.call < c; });
  for (; at != actor.poison_ranges.end() && at->call == call; ++at)
    if (at->dead == dead) poison_range(actor, *at);
}

}  // namespace

void count_readers(LoadedPlan& loaded) {
  for (const Register& r : loaded.plan.registers) loaded.readers.emplace_back(static_cast<std::size_t>(r.slots));
}

void find_poison_ranges(LoadedPlan& loaded, ActorState& actor) { PoisonAnalysis(loaded, actor).run(); }

void poison_before(const ActorState& actor, int call) { poison_ranges(actor, call, false); }
void poison_after(const ActorState& actor, int call) { poison_ranges(actor, call, true); }

}  // namespace karez::runtime
