// Loads a plan: blocks, kernels, address tables, collectives, and the mails that actors may send each other across
// workers.
#include "karez/runtime/plan_loader.h"

#include <algorithm>
#include <tuple>

#include "karez/kernels/prepare_call.h"
#include "karez/plan/acts.h"
#include "karez/plan/stream_assignment.h"
#include "karez/runtime/failure.h"
#include "karez/runtime/poison.h"

namespace karez::runtime {

namespace {

class Preparation {
 public:
  Preparation(const Plan& plan, Variables& variables, const LoadOptions& options)
      : loaded_(std::make_unique<LoadedPlan>(plan, options.in_flight)),
        plan_(loaded_->plan),
        dealt_(assign_streams(plan, options.max_workers)),
        variables_(variables),
        options_(options) {}

  std::unique_ptr<LoadedPlan> run() {
    for (const PlanDevice& device : plan_.devices) loaded_->devices.push_back(&options_.device(device));
    loaded_->boxes = options_.boxes;
    loaded_->reader = options_.reader;
    loaded_->slow_read = options_.slow_read;
    loaded_->check_nan = options_.check_nan;
    loaded_->delays = options_.delays;
    loaded_->unload.kind = Mail::Kind::unload;
    loaded_->unload.payload = loaded_.get();
    loaded_->number = options_.number;
    allocate_blocks();
    find_slot_addresses();
    make_worker_plans();
    acts_ = acts_per_launch(plan_);
    make_bindings();
    make_links();
    if (options_.poison) count_readers(*loaded_);
    for (ActorId i : plan_.actors.ids()) prepare_actor(state(i));
    make_sequences();
    make_mails();
    find_accesses();
    run_setup();
    for (auto& [key, variable] : fresh_) variables_.by_key.emplace(key, std::move(variable));
    return std::move(loaded_);
  }

 private:
  ActorState& state(ActorId id) { return *loaded_->worker_plan_of[id]->local[id.index + 1]; }
  int worker_of(const Actor& actor) const { return dealt_[actor.stream]; }
  const PlanDevice& device_of(const Actor& actor) const { return plan_.devices[plan_.stream(actor.stream).device]; }

  // Registers and scratch hold no data between launches, so all plans of a device keep theirs in one arena, and their
  // launches are ordered. Constants that a plan computes when it is loaded are not in the arena.
  void allocate_blocks() {
    std::map<DeviceId, std::int64_t> shared;
    ById<BlockId, std::int64_t> offset;
    for (const Block& b : plan_.blocks) {
      offset.push_back(shared.contains(b.device) ? shared[b.device] : 0);
      if (is_shared(b)) shared[b.device] = offset.back() + base::round_up(b.bytes, 64);
    }
    std::map<DeviceId, std::byte*> arenas;
    for (const auto& [id, bytes] : shared) {
      if (bytes == 0) continue;
      auto use = loaded_->devices[id]->arena().lease(bytes);
      if (!use) continue;
      arenas[id] = use->data();
      if (const std::int64_t fresh = base::round_up(use->zeroed_from(), 64); options_.poison && bytes > fresh)
        poison(use->data() + fresh, bytes - fresh);
      loaded_->arenas.push_back(std::move(*use));
      auto& written = variables_.arenas[loaded_->devices[id]->name()];
      if (!written) written = std::make_shared<Variable>();
      if (options_.order_arena_plans)
        loaded_->accesses.push_back({loaded_->variables_of_arenas.emplace_back(written).get(), true});
    }
    for (BlockId id : plan_.blocks.ids()) {
      const Block& b = plan_.blocks[id];
      Device& device = *loaded_->devices[b.device];
      if (b.kind == BlockKind::variable) {
        loaded_->block_address.push_back(variable(b, device));
        continue;
      }
      if (is_shared(b) && arenas.contains(b.device)) {
        loaded_->block_address.push_back(arenas[b.device] + offset[id]);
        continue;
      }
      loaded_->memory.push_back(device.allocate(b.bytes));
      if (options_.poison) poison(loaded_->memory.back().data(), b.bytes);
      loaded_->block_address.push_back(loaded_->memory.back().data());
    }
  }

  static bool is_shared(const Block& b) { return b.kind == BlockKind::scratch || b.kind == BlockKind::reg; }

  std::byte* variable(const Block& b, Device& device) {
    auto key = std::pair{device.name(), b.name};
    auto known = variables_.by_key.find(key);
    if (known == variables_.by_key.end()) {
      auto fresh = std::make_shared<Variable>(Variable{b.layout, device.allocate(b.bytes)});
      if (options_.poison) poison(fresh->memory.data(), b.bytes);
      fresh_.emplace(key, fresh);
      return hold(std::move(fresh));
    }
    const Variable& v = *known->second;
    require(v.layout == b.layout && v.memory.bytes() == b.bytes, "plan '", plan_.name, "': variable '", b.name,
            "' of device ", device.name(), " is stored as ", v.layout, " (", v.memory.bytes(),
            " bytes), but this plan requires ", b.layout, " (", b.bytes, " bytes)");
    return hold(known->second);
  }

  std::byte* hold(std::shared_ptr<Variable> variable) {
    return loaded_->variables.emplace_back(std::move(variable))->memory.data();
  }

  // Assigns actors to workers: the local index of an actor is its position in the worker's priority order.
  void make_worker_plans() {
    const PortNumbers places(plan_);
    std::vector<std::vector<ActorId>> dealt(options_.boxes.size());
    for (ActorId i : plan_.actors.ids()) dealt[worker_of(plan_.actors[i])].push_back(i);
    loaded_->worker_plan_of.resize(plan_.actors.size());
    for (std::size_t w = 0; w < dealt.size(); ++w) {
      auto& part = loaded_->worker_plans.emplace_back();
      if (dealt[w].empty()) continue;
      part = std::make_unique<WorkerPlan>();
      part->loaded = loaded_.get();
      part->worker = static_cast<int>(w);
      part->local.resize(plan_.actors.size() + 1);
      part->ready = ReadyQueue(static_cast<int>(dealt[w].size()));
      part->held_collectives = ReadyQueue(static_cast<int>(dealt[w].size()));
      part->attach.kind = Mail::Kind::attach;
      part->abandon.kind = Mail::Kind::abandon;
      part->resume.kind = Mail::Kind::resume;
      part->detach.kind = Mail::Kind::detach;
      part->attach.worker_plan = part->abandon.worker_plan = part->resume.worker_plan = part->detach.worker_plan =
          part.get();
      for (ActorId id : priority_order(plan_, dealt[w])) {
        auto& actor = part->actors.emplace_back(std::make_unique<ActorState>(plan_, id, places));
        actor->local_index = static_cast<int>(part->actors.size()) - 1;
        actor->stream = plan_.actor(id).stream.index;
        part->local[id.index + 1] = actor.get();
        loaded_->worker_plan_of[id] = part.get();
      }
    }
  }

  // A register that one input fills as a whole, and no other actor writes, may be read at the address of the source.
  void find_slot_addresses() {
    loaded_->slot_addresses.resize(plan_.registers.size());
    for (const Actor& actor : plan_.actors) {
      if (actor.body != BodyKind::input) continue;
      for (const Operand& o : actor.bound) {
        const auto same = std::count_if(actor.bound.begin(), actor.bound.end(),
                                        [&](const Operand& other) { return other.reg == o.reg; });
        if (!o.reg.valid() || !plan_.reg(o.reg).block.valid() || o.offset != 0 || same > 1) continue;
        const Register& r = plan_.reg(o.reg);
        for (int slot = 0; slot < r.slots; ++slot)
          loaded_->slot_addresses[o.reg].push_back(loaded_->block_address[r.block] + r.offset + slot * r.stride);
      }
    }
  }

  // Sets the cell, and records how it changes with the slot of the operand's port.
  void locate(ActorState& a, const Operand& o, std::byte** cell) {
    *cell = nullptr;
    if (!o.reg.valid()) {
      if (o.block.valid()) *cell = loaded_->block_address[o.block] + o.offset;
      return;
    }
    const Register& r = plan_.reg(o.reg);
    if (!r.block.valid()) return;  // an empty tensor
    std::byte* base = loaded_->block_address[r.block] + r.offset + o.offset;
    *cell = base;
    std::vector<std::byte*>& slot_addresses = loaded_->slot_addresses[o.reg];
    const bool elsewhere = !slot_addresses.empty() && a.actor->body != BodyKind::input;
    if (r.slots == 1 && !elsewhere) return;
    auto find = [&](const std::vector<Port>& ports) {
      auto at = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.reg == o.reg; });
      return at == ports.end() ? -1 : static_cast<int>(at - ports.begin());
    };
    int out = find(a.actor->outputs), port = out >= 0 ? out : find(a.actor->inputs);
    auto at = std::find_if(a.patched.begin(), a.patched.end(),
                           [&](const PatchedPort& p) { return p.output == (out >= 0) && p.port == port; });
    if (at == a.patched.end())
      at = a.patched.insert(at, PatchedPort{out >= 0, port, -1, elsewhere ? slot_addresses.data() : nullptr, {}});
    at->patches.push_back({cell, base, r.stride, o.offset});
  }

  // Call in a catch block: throws the same error with the place in front of its text.
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
      for (std::size_t i = 0; i < call.in.size(); ++i) locate(a, call.in[i], &prepared.in[i]);
      for (std::size_t i = 0; i < call.out.size(); ++i) locate(a, call.out[i], &prepared.out[i]);
      if (call.workspace) locate(a, *call.workspace, &prepared.workspace);
      require(prepared.async == nullptr || (actor.calls.size() == 1 && call.acts.all()), "actor '", actor.name,
              "': kernel ", call.kernel, " is asynchronous, so it must be the only call of its actor",
              call.acts.all() ? "" : " and run in all acts");
      a.calls_differ = a.calls_differ || !call.acts.all();
    }
    a.work = work_of(a);
    note_writes(a);
    if (a.work == WorkKind::async_call || options_.delays.max_microseconds > 0) hold_streams(*a.completion.worker_plan);
    bind(a);
    if (a.work == WorkKind::collective) prepare_collective(a);
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

  static WorkKind work_of(const ActorState& a) {
    switch (a.actor->body) {
      case BodyKind::compute:
        return a.calls.empty() ? WorkKind::none : a.calls[0].async != nullptr ? WorkKind::async_call : WorkKind::calls;
      case BodyKind::input: return WorkKind::read;
      case BodyKind::fetch: return WorkKind::fetch;
      case BodyKind::state: return WorkKind::none;
      case BodyKind::collective: return WorkKind::collective;
    }
    return WorkKind::none;
  }

  void hold_streams(WorkerPlan& part) {
    if (!part.stream_busy.empty()) return;
    part.stream_busy.resize(plan_.streams.size());
    part.deferred.resize(plan_.streams.size(), ReadyQueue(static_cast<int>(part.actors.size())));
  }

  static bool binds(const Actor& actor) { return actor.body == BodyKind::input || actor.body == BodyKind::fetch; }
  std::vector<PlanBinding>& bindings_of(const Actor& actor) {
    return actor.body == BodyKind::input ? loaded_->inputs : loaded_->outputs;
  }
  static auto find_binding(std::vector<PlanBinding>& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const PlanBinding& b) { return b.layout->name == name; });
  }

  // The part of the whole that an operand covers; a fetch without a slice keeps the whole.
  ShardLayout::Shard part_of(const Actor& actor, std::size_t operand, Shape& whole) const {
    const View& view = actor.bound[operand].view;
    const bool sliced = operand < actor.slices.size();
    whole = sliced ? actor.slices[operand].ints("shape") : view.shape;
    return {device_of(actor), loaded_->devices[plan_.stream(actor.stream).device],
            sliced ? actor.slices[operand].ints("begin") : Ints(view.shape.size(), 0), View(view.dtype, view.shape)};
  }

  // Feeds and fetches by name, with the parts that the plan's actors read or keep, by device.
  void make_bindings() {
    for (const Actor& actor : plan_.actors) {
      if (!binds(actor)) continue;
      auto& list = bindings_of(actor);
      for (std::size_t i = 0; i < actor.bound.size(); ++i) {
        Shape whole;
        ShardLayout::Shard part = part_of(actor, i, whole);
        const TensorType type{part.view.dtype, whole};
        auto at = find_binding(list, actor.binding);
        if (at == list.end())
          at = list.insert(at, {std::make_shared<ShardLayout>(ShardLayout{actor.binding, type, {}}), actor.where});
        ShardLayout& layout = *at->layout;
        require(layout.type == type, "plan '", plan_.name, "': binding '", actor.binding, "' has two types, ",
                layout.type, " and ", type);
        auto before = [](const ShardLayout::Shard& a, const ShardLayout::Shard& b) {
          return std::tie(a.place.rank, a.place.device, a.begin, a.view.shape) <
                 std::tie(b.place.rank, b.place.device, b.begin, b.view.shape);
        };
        auto place = std::lower_bound(layout.shards.begin(), layout.shards.end(), part, before);
        if (place == layout.shards.end() || *place != part) layout.shards.insert(place, std::move(part));
      }
    }
  }

  void bind(ActorState& a) {
    const Actor& actor = *a.actor;
    if (!binds(actor)) return;
    auto& list = bindings_of(actor);
    auto at = find_binding(list, actor.binding);
    a.binding = static_cast<int>(at - list.begin());
    a.bound.resize(actor.bound.size());
    for (std::size_t i = 0; i < actor.bound.size(); ++i) {
      Shape whole;
      const ShardLayout::Shard part = part_of(actor, i, whole);
      const auto& parts = at->layout->shards;
      a.bound[i].view = &actor.bound[i].view;
      if (actor.slices.empty()) a.bound[i].begin = {part.begin};
      for (std::size_t lot = i; lot < actor.slices.size(); lot += actor.bound.size())
        a.bound[i].begin.push_back(actor.slices[lot].ints("begin"));
      a.bound[i].shard = static_cast<std::size_t>(std::find(parts.begin(), parts.end(), part) - parts.begin());
      a.bound[i].target_view = &parts[a.bound[i].shard].view;
      a.bound[i].target = a.bound[i].shard;
      for (auto before = list.begin(); before != at; ++before) a.bound[i].target += before->layout->shards.size();
      locate(a, actor.bound[i], &a.bound[i].address);
      if (actor.body != BodyKind::input || !actor.bound[i].reg.valid() ||
          loaded_->slot_addresses[actor.bound[i].reg].empty())
        continue;
      const auto port = std::find_if(actor.outputs.begin(), actor.outputs.end(),
                                     [&](const Port& p) { return p.reg == actor.bound[i].reg; });
      a.bound[i].slot_addresses = loaded_->slot_addresses[actor.bound[i].reg].data();
      a.bound[i].port = static_cast<int>(port - actor.outputs.begin());
    }
  }

  void make_links() {
    loaded_->hubs = link_members(plan_, options_.connect);
    if (options_.on_endpoint)
      for (const auto& hub : loaded_->hubs)
        for (int member : hub == nullptr ? std::vector<int>() : hub->local_members())
          options_.on_endpoint(hub->endpoint(member));
  }

  void prepare_collective(ActorState& a) {
    const Collective& c = *a.actor->collective;
    comm::CollectiveSpec spec = checked_spec(plan_, *a.actor);
    comm::Endpoint& endpoint = loaded_->hubs[c.communicator]->endpoint(spec.member);
    a.collective = std::make_unique<comm::CollectiveRun>(std::move(spec), endpoint);
    locate(a, c.in, &a.collective_in);
    locate(a, c.out, &a.collective_out);
    if (c.staging) locate(a, *c.staging, &a.staging);
  }

  void make_sequences() {
    std::map<std::pair<CommunicatorId, DeviceId>, SequenceState*> known;
    for (ActorId i : plan_.actors.ids()) {
      if (!plan_.actors[i].collective) continue;
      ActorState& a = state(i);
      const Collective& c = *a.actor->collective;
      WorkerPlan& part = *loaded_->worker_plan_of[i];
      SequenceState*& sequence = known[{c.communicator, plan_.stream(a.actor->stream).device}];
      if (sequence == nullptr) {
        sequence = part.sequences.emplace_back(std::make_unique<SequenceState>()).get();
        sequence->position = &loaded_->collective_sequence.position(a.id);
        sequence->by_position.resize(sequence->position->order.size());
        sequence->endpoint = &loaded_->hubs[c.communicator]->endpoint(a.collective->spec().member);
        sequence->arrival.kind = Mail::Kind::arrival;
        sequence->arrival.worker_plan = &part;
        sequence->arrival.local_index = static_cast<int>(part.sequences.size()) - 1;
        // The run acknowledges its notifier whenever it polls, so it may be notified again before the mail of the
        // earlier notification was opened.
        sequence->endpoint->set_wake([box = options_.boxes[part.worker], sequence] {
          if (!sequence->arrival_posted.exchange(true, std::memory_order_acq_rel)) box->post(&sequence->arrival);
        });
      }
      auto at = std::find_if(part.sequences.begin(), part.sequences.end(),
                             [&](const auto& s) { return s.get() == sequence; });
      require(at != part.sequences.end(), "actor '", a.actor->name, "': another collective of communicator ",
              c.communicator, " on this device is on another worker");
      a.sequence = static_cast<int>(at - part.sequences.begin());
      for (int turn : c.turns) sequence->by_position[static_cast<std::size_t>(turn)] = &a;
      part.sent_bytes[c.kind];
    }
  }

  // Creates a mail for every message that an actor can send to another worker, one per lane.
  void make_mails() {
    for (ActorId i : plan_.actors.ids()) {
      ActorState& a = state(i);
      auto away = [&](ActorId other) {
        return other == session_actor || loaded_->worker_plan_of[other] != loaded_->worker_plan_of[i];
      };
      bool any = false;
      for (const Port& port : a.actor->inputs) any |= away(plan_.reg(port.reg).producer);
      for (const Port& port : a.actor->outputs)
        for (ActorId c : plan_.reg(port.reg).consumers) any |= away(c);
      if (any) a.mails.resize(static_cast<std::size_t>(a.ports.lanes()));
    }
    loaded_->session_ports.start_mails.resize(static_cast<std::size_t>(loaded_->session_ports.session_start.lanes()));
    loaded_->session_ports.done_mails.resize(static_cast<std::size_t>(loaded_->session_ports.session_done.lanes()));
  }

  // A variable is written if a result of an act is in its bytes.
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
      require(prepared.async == nullptr, "set-up: kernel ", call.kernel, " is asynchronous");
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
  const ById<StreamId, int> dealt_;
  Variables& variables_;
  const LoadOptions& options_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Variable>> fresh_;
  ById<ActorId, std::int64_t> acts_;
};

}  // namespace

std::unique_ptr<LoadedPlan> prepare(const Plan& plan, Variables& variables, const LoadOptions& options) {
  return Preparation(plan, variables, options).run();
}

}  // namespace karez::runtime
