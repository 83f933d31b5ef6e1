// Assigns the actors of a plan to workers, prepares their kernels, and creates the mails that they may send to other
// workers.
#include "karez/runtime/load/plan_loader.h"

#include <algorithm>

#include "karez/kernels/prepare_call.h"
#include "karez/plan/acts.h"
#include "karez/plan/external_registers.h"
#include "karez/plan/stream_assignment.h"
#include "karez/runtime/actor/poison.h"
#include "karez/runtime/current_error.h"
#include "karez/runtime/load/block_memory.h"
#include "karez/runtime/load/collective_preparation.h"
#include "karez/runtime/load/plan_bindings.h"

namespace karez::runtime {

namespace {

class Preparation {
 public:
  Preparation(const Plan& plan, VariableStore& variables, const LoadOptions& options)
      : loaded_(std::make_unique<LoadedPlan>(plan, options.in_flight)),
        plan_(loaded_->plan),
        worker_of_stream_(assign_streams(plan, options.max_workers)),
        variables_(variables),
        options_(options) {}

  std::unique_ptr<LoadedPlan> run() {
    for (const PlanDevice& device : plan_.devices) loaded_->devices.push_back(&options_.device(device));
    loaded_->boxes = options_.boxes;
    loaded_->reader = options_.reader;
    loaded_->slow_read = options_.slow_read;
    loaded_->check_nan = options_.check_nan;
    loaded_->observes_calls = options_.check_nan;
    loaded_->delays = options_.delays;
    loaded_->unload.kind = Mail::Kind::unload;
    loaded_->unload.payload = loaded_.get();
    loaded_->number = options_.number;
    new_variables_ = allocate_blocks(*loaded_, variables_, {options_.poison, options_.order_arena_plans});
    find_slot_addresses(*loaded_);
    make_worker_plans();
    acts_ = acts_per_launch(plan_);
    make_bindings(*loaded_);
    make_links();
    if (options_.poison) count_readers(*loaded_);
    for (ActorId i : plan_.actors.ids()) prepare_actor(loaded_->state(i));
    make_sequences(*loaded_);
    make_mails();
    find_accesses();
    loaded_->fits_caller = fits_caller();
    run_setup();
    for (auto& [key, variable] : new_variables_) variables_.add(key, std::move(variable));
    return std::move(loaded_);
  }

 private:
  int worker_of(const Actor& actor) const { return worker_of_stream_[actor.stream]; }
  const PlanDevice& device_of(const Actor& actor) const { return plan_.devices[plan_.stream(actor.stream).device]; }

  // Assigns actors to workers. The local index of an actor is its position in the worker's priority order.
  void make_worker_plans() {
    const PortNumbers port_numbers(plan_);
    std::vector<std::vector<ActorId>> actors_of_worker(options_.boxes.size());
    for (ActorId i : plan_.actors.ids()) actors_of_worker[worker_of(plan_.actors[i])].push_back(i);
    loaded_->worker_plan_of.resize(plan_.actors.size());
    for (std::size_t w = 0; w < actors_of_worker.size(); ++w) {
      auto& worker_plan = loaded_->worker_plans.emplace_back();
      if (actors_of_worker[w].empty()) continue;
      worker_plan = std::make_unique<WorkerPlan>();
      worker_plan->loaded = loaded_.get();
      worker_plan->worker = static_cast<int>(w);
      worker_plan->local.resize(plan_.actors.size() + 1);
      worker_plan->ready = ReadyQueue(static_cast<int>(actors_of_worker[w].size()));
      worker_plan->held_collectives = ReadyQueue(static_cast<int>(actors_of_worker[w].size()));
      worker_plan->attach.kind = Mail::Kind::attach;
      worker_plan->abandon.kind = Mail::Kind::abandon;
      worker_plan->resume.kind = Mail::Kind::resume;
      worker_plan->detach.kind = Mail::Kind::detach;
      worker_plan->attach.worker_plan = worker_plan->abandon.worker_plan = worker_plan->resume.worker_plan =
          worker_plan->detach.worker_plan = worker_plan.get();
      for (ActorId id : priority_order(plan_, actors_of_worker[w])) {
        auto& actor = worker_plan->actors.emplace_back(std::make_unique<ActorState>(plan_, id, port_numbers));
        actor->local_index = static_cast<int>(worker_plan->actors.size()) - 1;
        actor->stream = plan_.actor(id).stream.index;
        worker_plan->local[id.index + 1] = actor.get();
        loaded_->worker_plan_of[id] = worker_plan.get();
      }
    }
  }

  // Call in a catch block. Throws the same error with `when` and `where` in front of its text.
  [[noreturn]] void fail_call(std::string_view when, const std::string& where) const {
    const Error error = current_error();
    throw Error(error.kind, cat("plan '", plan_.name, "', ", when, where, ": ", error.what()), error.where);
  }

  void prepare_call(PreparedCall& prepared, const Call& call, const std::string& device) {
    prepared.call = &call;
    prepared.in.resize(call.in.size());
    prepared.out.resize(call.out.size());
    for (const AsyncKernel* kernel : options_.async)
      if (kernel->name == call.kernel) prepared.async = kernel;
    if (prepared.async != nullptr) return;
    try {
      prepared.run = kernels::prepare_call(*options_.kernels, call, device);
    } catch (...) { fail_call("", call.where.empty() ? "a call of " + call.kernel : call.where); }
  }

  void prepare_actor(ActorState& a) {
    const Actor& actor = *a.actor;
    const std::string& device = device_of(actor).kind;
    a.acts_per_launch = acts_[a.id];
    a.completion.kind = Mail::Kind::finished;
    a.completion.local_index = a.local_index;
    a.completion.worker_plan = loaded_->worker_plan_of[a.id];
    a.calls.resize(actor.calls.size());
    for (std::size_t c = 0; c < actor.calls.size(); ++c) {
      const Call& call = actor.calls[c];
      PreparedCall& prepared = a.calls[c];
      prepare_call(prepared, call, device);
      for (std::size_t i = 0; i < call.in.size(); ++i) locate(*loaded_, a, call.in[i], &prepared.in[i]);
      for (std::size_t i = 0; i < call.out.size(); ++i) locate(*loaded_, a, call.out[i], &prepared.out[i]);
      if (call.workspace) locate(*loaded_, a, *call.workspace, &prepared.workspace);
      require(prepared.async == nullptr || (actor.calls.size() == 1 && call.acts.all()), "actor '", actor.name,
              "': kernel ", call.kernel, " is asynchronous, so it must be the only call of its actor",
              call.acts.all() ? "" : " and run in all acts");
      a.calls_differ = a.calls_differ || !call.acts.all();
    }
    a.work = work_of(a);
    note_writes(a);
    if (a.work == WorkKind::async_call || options_.delays.max_microseconds > 0)
      track_streams(*a.completion.worker_plan);
    bind_operands(*loaded_, a);
    bind_results(*loaded_, a);
    if (a.work == WorkKind::collective) prepare_collective(*loaded_, a);
    if (options_.poison) find_poison_ranges(*loaded_, a);
  }

  void note_writes(ActorState& a) const {
    const Actor& actor = *a.actor;
    loaded_->runs_ahead = loaded_->runs_ahead || actor.inputs.empty();
    const auto is_state = [&](BlockId block) { return plan_.block(block).kind == BlockKind::variable; };
    if (a.work != WorkKind::calls)
      for_each_written(actor, [&](BlockId block) { a.writes_state = a.writes_state || is_state(block); });
    else
      for (PreparedCall& call : a.calls)
        for (const Operand& out : call.call->out)
          if (const BlockId block = block_of(out); block.valid())
            call.writes_state = call.writes_state || is_state(block);
  }

  BlockId block_of(const Operand& o) const { return o.reg.valid() ? plan_.reg(o.reg).block : o.block; }

  template <class Take> void for_each_written(const Actor& actor, Take take) const {
    auto look = [&](const Operand& o) {
      if (const BlockId block = block_of(o); block.valid()) take(block);
    };
    for (const Call& call : actor.calls)
      for (const Operand& out : call.out) look(out);
    if (actor.collective) look(actor.collective->out);
    if (actor.body == BodyKind::input)
      for (const Operand& out : actor.bound) look(out);
  }

  WorkKind work_of(const ActorState& a) const {
    switch (a.actor->body) {
      case BodyKind::compute:
        return a.calls.empty() ? WorkKind::none : a.calls[0].async != nullptr ? WorkKind::async_call : WorkKind::calls;
      case BodyKind::input: return WorkKind::read;
      case BodyKind::fetch: return is_in_place(plan_, *a.actor) ? WorkKind::none : WorkKind::fetch;
      case BodyKind::state: return WorkKind::none;
      case BodyKind::collective: return WorkKind::collective;
    }
    return WorkKind::none;
  }

  // Whether one thread runs the plan. A team is bound to the worker whose kernels started it.
  bool fits_caller() const {
    for (std::size_t w = 1; w < loaded_->worker_plans.size(); ++w)
      if (loaded_->worker_plans[w]) return false;
    if (!loaded_->worker_plans[0] || options_.delays.max_microseconds > 0) return false;
    for (const auto& actor : loaded_->worker_plans[0]->actors) {
      if (actor->work == WorkKind::collective || actor->work == WorkKind::async_call) return false;
      for (const PreparedCall& call : actor->calls)
        if (call.call->team > 1) return false;
    }
    return true;
  }

  void track_streams(WorkerPlan& worker_plan) {
    if (!worker_plan.stream_busy.empty()) return;
    worker_plan.stream_busy.resize(plan_.streams.size());
    worker_plan.deferred.resize(plan_.streams.size(), ReadyQueue(static_cast<int>(worker_plan.actors.size())));
  }

  void make_links() {
    loaded_->hubs = link_members(plan_, options_.connect);
    if (options_.on_endpoint)
      for (const auto& hub : loaded_->hubs)
        for (int member : hub == nullptr ? std::vector<int>() : hub->local_members())
          options_.on_endpoint(hub->endpoint(member));
  }

  // Creates one mail for each lane of an actor that can send messages to other workers.
  void make_mails() {
    for (ActorId i : plan_.actors.ids()) {
      ActorState& a = loaded_->state(i);
      auto on_other_worker = [&](ActorId other) {
        return other == session_actor || loaded_->worker_plan_of[other] != loaded_->worker_plan_of[i];
      };
      bool needs_mails = false;
      for (const Port& port : a.actor->inputs) needs_mails |= on_other_worker(plan_.reg(port.reg).producer);
      for (const Port& port : a.actor->outputs)
        for (ActorId c : plan_.reg(port.reg).consumers) needs_mails |= on_other_worker(c);
      if (needs_mails) a.mails.resize(static_cast<std::size_t>(a.ports.lanes()));
    }
    loaded_->session_ports.start_mails.resize(static_cast<std::size_t>(loaded_->session_ports.session_start.lanes()));
    loaded_->session_ports.done_mails.resize(static_cast<std::size_t>(loaded_->session_ports.session_done.lanes()));
  }

  // Lists the variables that the plan uses. A variable is written if the result of an act is stored in it.
  void find_accesses() {
    ById<BlockId, bool> written(plan_.blocks.size(), false);
    for (const Actor& actor : plan_.actors) for_each_written(actor, [&](BlockId block) { written[block] = true; });
    std::size_t at = 0;
    for (BlockId b : plan_.blocks.ids())
      if (plan_.blocks[b].kind == BlockKind::variable)
        loaded_->accesses.push_back({loaded_->variables[at++].get(), written[b]});
    sort_accesses(loaded_->accesses);
  }

  void run_setup() {
    for (const Call& call : plan_.setup) {
      DeviceId device = call.out.empty() ? DeviceId(0) : plan_.block(call.out[0].block).device;
      PreparedCall prepared;
      prepare_call(prepared, call, plan_.devices[device].kind);
      require(prepared.async == nullptr, "set-up: kernel ", call.kernel,
              " is asynchronous, but the set-up can only run synchronous kernels");
      auto fixed = [&](const Operand& o) {
        return o.block.valid() ? loaded_->block_address[o.block] + o.offset : nullptr;
      };
      for (std::size_t i = 0; i < call.in.size(); ++i) prepared.in[i] = fixed(call.in[i]);
      for (std::size_t i = 0; i < call.out.size(); ++i) prepared.out[i] = fixed(call.out[i]);
      if (call.workspace) prepared.workspace = fixed(*call.workspace);
      try {
        prepared.run(prepared.args());
      } catch (...) { fail_call("set-up, ", call.where.empty() ? call.kernel : call.where); }
    }
  }

  std::unique_ptr<LoadedPlan> loaded_;
  const Plan& plan_;
  const ById<StreamId, int> worker_of_stream_;
  VariableStore& variables_;
  const LoadOptions& options_;
  NewVariables new_variables_;
  ById<ActorId, std::int64_t> acts_;
};

}  // namespace

std::unique_ptr<LoadedPlan> prepare(const Plan& plan, VariableStore& variables, const LoadOptions& options) {
  return Preparation(plan, variables, options).run();
}

}  // namespace karez::runtime
