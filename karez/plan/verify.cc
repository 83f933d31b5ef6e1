// The plan verifier: checks ids, registers, actors, operands, sequences and liveness.
#include <algorithm>
#include <map>
#include <set>

#include "karez/base/text.h"
#include "karez/plan/acts.h"
#include "karez/plan/dry_run.h"
#include "karez/plan/external_registers.h"
#include "karez/plan/item_names.h"
#include "karez/plan/plan.h"
#include "karez/plan/port_index.h"
#include "karez/plan/verify_bindings.h"
#include "karez/plan/verify_sequences.h"
#include "karez/plan/verify_sharing.h"

namespace karez::plan {
namespace {

template <class IdType, class Items>
void require_in_range(IdType id, const Items& items, const std::string& subject, const char* item) {
  require(id.index >= 0 && static_cast<std::size_t>(id.index) < items.size(), subject, " names ", item, " ", id,
          ", which does not exist (the plan has ", items.size(), ", numbered from 0)");
}

void verify_devices_and_blocks(const Plan& plan) {
  require(plan.world >= 1 && plan.rank >= 0 && plan.rank < plan.world, "plan: rank ", plan.rank,
          " is not in a world of size ", plan.world);
  for (DeviceId i : plan.devices.ids())
    for (DeviceId j : plan.devices.ids())
      require(
          j >= i || plan.devices[i].rank != plan.devices[j].rank || plan.devices[i].device != plan.devices[j].device,
          "plan: devices ", i, " and ", j, " are the same device, ", plan.devices[i].rank, ".", plan.devices[i].device);
  for (StreamId i : plan.streams.ids()) {
    require_in_range(plan.streams[i].device, plan.devices, cat("stream ", i), "device");
    require(plan.streams[i].worker >= 0, "stream ", i, ": worker must be at least 0, got ", plan.streams[i].worker);
  }
  std::set<std::pair<DeviceId, std::string>> variables;
  std::int64_t total_bytes = 0, transferred_bytes = 0;  // checked for overflow, because other code sums without checks
  for (const Transfer& t : plan.transfers) {
    require(t.bytes >= 0, "transfer of '", t.value, "': bytes must be at least 0, got ", t.bytes);
    transferred_bytes = checked_add(transferred_bytes, t.bytes);
  }
  for (BlockId i : plan.blocks.ids()) {
    const Block& b = plan.blocks[i];
    require_in_range(b.device, plan.devices, cat("block b", i), "device");
    require(b.bytes >= 0, "block b", i, ": bytes must be at least 0, got ", b.bytes);
    total_bytes = checked_add(total_bytes, b.bytes);
    if (b.kind != BlockKind::variable) continue;
    require(!b.name.empty(), "block b", i, " is a variable without a name");
    require(variables.emplace(b.device, b.name).second, "block b", i, ": variable '", b.name,
            "' has two blocks on device ", b.device);
  }
}

constexpr ActorId no_actor;  // passed for set-up calls, which belong to no actor

void verify_register(const Plan& plan, const PortIndex& port_index, RegisterId id) {
  const Register& r = plan.reg(id);
  const std::string subject = cat("register r", id, r.type.empty() ? "" : " (" + r.type + ")");
  require(r.slots >= 1 && r.slots <= 32767, subject, " has ", r.slots,
          " slots; the number must be between 1 and 32767");
  require(r.bytes >= 0, subject, ": bytes must be at least 0, got ", r.bytes);
  if (r.producer != session_actor) {
    require_in_range(r.producer, plan.actors, subject, "producer");
    if (!port_index.has_output(r.producer, id))
      fail(subject, " names ", name_of_actor(plan, r.producer),
           " as its producer, but that actor does not list the register");
  }
  require(!r.consumers.empty(), subject, " has no consumer, so its slots would never be returned");
  std::set<ActorId> seen;
  for (ActorId consumer : r.consumers) {
    require(seen.insert(consumer).second, subject, " names consumer ", consumer, " twice");
    if (consumer == session_actor) continue;
    require_in_range(consumer, plan.actors, subject, "consumer");
    if (!port_index.has_input(consumer, id))
      fail(subject, " names ", name_of_actor(plan, consumer),
           " as a consumer, but that actor does not list the register");
  }
  require(r.producer != session_actor || !seen.count(session_actor), subject,
          " has the session both as its producer and as a consumer");
  bool of_session = r.producer == session_actor || seen.count(session_actor);
  require(!of_session || r.bytes == 0, subject, " is a start or done register, but has ", r.bytes, " bytes");
  require(r.bytes > 0 || !r.block.valid(), subject, " has no bytes, but is in block ", r.block);
  if (r.bytes == 0) return;
  require_in_range(r.block, plan.blocks, subject, "block");
  require(plan.block(r.block).kind != BlockKind::constant, subject, " is in the constant block b", r.block,
          ", which must not be written");
  if (plan.block(r.block).kind == BlockKind::external) return;  // see verify_bindings.cc
  require(r.offset >= 0 && (r.slots == 1 || r.stride >= r.bytes), subject,
          ": offset must be at least 0 and stride at least ", r.bytes, ", the size of a slot; got offset ", r.offset,
          " and stride ", r.stride);
  std::int64_t end = checked_add(r.offset, checked_add(checked_mul(r.slots - 1, r.stride), r.bytes));
  require(end <= plan.block(r.block).bytes, subject, " ends at byte ", end, " of block b", r.block, ", which has ",
          plan.block(r.block).bytes, " bytes");
}

void verify_operand(const Plan& plan, const PortIndex& port_index, ActorId actor, const Operand& o, bool written,
                    const std::string& subject) {
  require(o.view.strides.size() == o.view.shape.size(), subject, ": the view ", o.view, " has ", o.view.strides.size(),
          " strides, but ", o.view.shape.size(), " dimensions");
  for (auto size : o.view.shape) require(size >= 0, subject, ": the view ", o.view, " has a negative size");
  for (auto stride : o.view.strides) require(stride >= 0, subject, ": the view ", o.view, " has a negative stride");
  require(o.offset >= 0, subject, ": the offset of an operand must be at least 0, got ", o.offset);
  std::int64_t bytes = o.view.bytes(), end = checked_add(o.offset, bytes);
  if (!o.reg.valid() && !o.block.valid()) {
    require(bytes == 0, subject, ": an operand ", o.view, " has neither register nor block");
    return;
  }
  if (!o.reg.valid()) {
    require_in_range(o.block, plan.blocks, subject, "block");
    require(end <= plan.block(o.block).bytes, subject, ": an operand ", o.view, " ends at byte ", end, " of block b",
            o.block, ", which has ", plan.block(o.block).bytes, " bytes");
    require(plan.block(o.block).kind != BlockKind::external, subject, ": an operand ", o.view,
            " is in the external block b", o.block, "; only registers may be in external blocks");
    require(!written || actor == no_actor || plan.block(o.block).kind != BlockKind::constant, subject,
            ": an operand writes the constant block b", o.block);
    return;
  }
  require(!o.block.valid(), subject, ": an operand names register r", o.reg, " and block b", o.block,
          "; it must name only one of the two");
  require(actor != no_actor, subject, ": a set-up call names register r", o.reg, "; it may only use blocks");
  require_in_range(o.reg, plan.registers, subject, "register");
  const Register& r = plan.reg(o.reg);
  require(end <= r.bytes, subject, ": an operand ", o.view, " ends at byte ", end, " of register r", o.reg,
          ", which has slots of ", r.bytes, " bytes");
  bool in = port_index.has_input(actor, o.reg), out = port_index.has_output(actor, o.reg);
  require(in || out, subject, ": an operand is in register r", o.reg, ", which is not a port of the actor");
  bool variable = r.bytes > 0 && plan.block(r.block).kind == BlockKind::variable;
  require(!written || out || variable, subject, ": an operand writes register r", o.reg,
          ", which is only an input of the actor");
}

void verify_call(const Plan& plan, const PortIndex& port_index, ActorId actor, const Call& call,
                 const std::string& owner) {
  const std::string subject = cat(owner, ", call ", call.kernel, call.where.empty() ? "" : " (" + call.where + ")");
  require(!call.kernel.empty(), subject, ": the call has no kernel");
  require(actor != no_actor || call.acts.all(), subject, ": a set-up call must not have an act range");
  require(call.team >= 1, subject, ": team must be at least 1, got ", call.team);
  for (const Operand& o : call.in) verify_operand(plan, port_index, actor, o, false, subject);
  for (const Operand& o : call.out) verify_operand(plan, port_index, actor, o, true, subject);
  if (call.workspace) verify_operand(plan, port_index, actor, *call.workspace, true, subject);
}

void verify_collective(const Plan& plan, const PortIndex& port_index, ActorId actor, const std::string& subject) {
  const Collective& c = *plan.actor(actor).collective;
  require_in_range(c.communicator, plan.communicators, subject, "communicator");
  const Communicator& group = plan.communicators[c.communicator];
  require(!c.turns.empty(), subject, " has no turn in the sequence of communicator ", c.communicator);
  for (int turn : c.turns)
    require(turn >= 0 && static_cast<std::size_t>(turn) < group.sequence.size(), subject, ": turn ", turn,
            " of communicator ", c.communicator, " does not exist; its sequence has ", group.sequence.size(),
            group.sequence.size() == 1 ? " turn" : " turns");
  verify_operand(plan, port_index, actor, c.in, false, subject);
  verify_operand(plan, port_index, actor, c.out, true, subject);
  if (c.staging) verify_operand(plan, port_index, actor, *c.staging, true, subject);
  const PlanDevice& own_device = plan.devices[plan.stream(plan.actor(actor).stream).device];
  require(std::find(group.members.begin(), group.members.end(), own_device) != group.members.end(), subject,
          ": device ", own_device.rank, ".", own_device.device, " is not a member of communicator ", c.communicator);
  for (const auto* boxes : {&c.sends, &c.receives}) {
    require(boxes->empty() || boxes->size() == group.members.size(), subject,
            ": expected one peer box for each of the ", group.members.size(), " members, got ", boxes->size());
    for (std::size_t m = 0; m < boxes->size(); ++m)
      require((*boxes)[m].peer == static_cast<int>(m), subject, ": peer box ", m, " must be for member ", m,
              ", but is for member ", (*boxes)[m].peer);
  }
}

void verify_actor(const Plan& plan, const PortIndex& port_index, ActorId i) {
  const Actor& a = plan.actors[i];
  const std::string subject = name_of_actor(plan, i);
  require_in_range(a.stream, plan.streams, subject, "stream");
  std::set<RegisterId> seen;
  auto check_ports = [&](const std::vector<Port>& ports, bool produces) {
    for (const Port& port : ports) {
      require_in_range(port.reg, plan.registers, subject, "register");
      require(port.period >= 1, subject, ": the period of register r", port.reg, " must be at least 1, got ",
              port.period);
      require(seen.insert(port.reg).second, subject, " lists register r", port.reg, " twice");
      const Register& r = plan.reg(port.reg);
      bool named = produces ? r.producer == i : port_index.has_consumer(port.reg, i);
      require(named, subject, " lists register r", port.reg, " among its ", produces ? "outputs" : "inputs",
              ", but the register does not name it");
    }
  };
  check_ports(a.inputs, false);
  check_ports(a.outputs, true);
  require(a.calls.empty() || a.body == BodyKind::compute, subject, " has calls, but its body is ", name_of(a.body));
  require(a.collective.has_value() == (a.body == BodyKind::collective), subject, ": its body is ", name_of(a.body),
          a.collective ? ", but it has a" : ", but it has no", " collective");
  bool binds = a.body == BodyKind::input || a.body == BodyKind::fetch;
  require(binds || (a.bound.empty() && a.slices.empty() && a.binding.empty()), subject,
          " has bindings, but its body is ", name_of(a.body));
  require(!binds || !a.binding.empty(), subject, ": its body is ", name_of(a.body), ", but it has no binding");
  require(a.body != BodyKind::input || !a.bound.empty(), subject, " reads input '", a.binding, "' without an operand");
  require(a.body != BodyKind::input || (!a.slices.empty() && a.slices.size() % a.bound.size() == 0), subject, " has ",
          a.slices.size(), " slices; the number must be a positive multiple of the number of its operands, ",
          a.bound.size());
  require(a.body != BodyKind::fetch || a.bound.size() == 1, subject, " fetches ", a.bound.size(),
          " operands; it must fetch exactly one");
  require(a.body != BodyKind::fetch || a.slices.size() <= 1, subject, " has ", a.slices.size(),
          " slices; a fetch must have at most one");
  for (std::size_t k = 0; k < a.bound.size(); ++k) {
    const Operand& o = a.bound[k];
    verify_operand(plan, port_index, i, o, a.body == BodyKind::input, subject);
    for (std::size_t s = k; s < a.slices.size(); s += a.bound.size()) {
      const Ints &begin = a.slices[s].ints("begin"), &shape = a.slices[s].ints("shape");
      bool fits = begin.size() == shape.size() && shape.size() == o.view.shape.size();
      for (std::size_t d = 0; fits && d < shape.size(); ++d)
        fits = begin[d] >= 0 && checked_add(begin[d], o.view.shape[d]) <= shape[d];
      if (!fits)
        fail(subject, ": a slice ", a.slices[s].print(), " of shape ", o.view.shape,
             " is not within the logical tensor");
      require(shape == a.slices[k].ints("shape"), subject, ": slices of operand ", k,
              " are of logical tensors with different shapes, ", a.slices[k].ints("shape"), " and ", shape);
    }
  }
  for (const Call& call : a.calls) verify_call(plan, port_index, i, call, subject);
  if (a.collective) verify_collective(plan, port_index, i, subject);
}

// Rejects cycles of actors that feed each other. No register is filled at first, so all these actors would wait
// forever.
void verify_acyclic(const Plan& plan) {
  ById<ActorId, int> waiting(plan.actors.size(), 0);
  std::vector<ActorId> free;
  for (const Register& r : plan.registers)
    for (ActorId c : r.consumers)
      if (c != session_actor && r.producer != session_actor) ++waiting[c];
  for (ActorId a : waiting.ids())
    if (waiting[a] == 0) free.push_back(a);
  std::size_t visited = 0;
  for (; visited < free.size(); ++visited)
    for (const Port& port : plan.actors[free[visited]].outputs)
      for (ActorId c : plan.reg(port.reg).consumers)
        if (c != session_actor && --waiting[c] == 0) free.push_back(c);
  if (visited == plan.actors.size()) return;
  std::string names;
  for (ActorId a : waiting.ids())
    if (waiting[a] > 0) names += cat(names.empty() ? "" : ", ", "a", a, " '", plan.actor(a).name, "'");
  fail("plan '", plan.name, "': a cycle of registers without tokens blocks ", names);
}

// A launch lasts from its start tokens to its last done token. Actors that read its feeds or write its outputs must
// begin after its start. All actors that it triggers must end before its end, because the host reads results and
// variables after that.
void verify_within_launch(const Plan& plan) {
  ById<ActorId, char> begins(plan.actors.size(), 0), ends(plan.actors.size(), 0);
  std::vector<ActorId> reached;
  auto reach = [&](ById<ActorId, char>& marks, ActorId a) {
    if (a == session_actor || marks[a]) return;
    marks[a] = 1;
    reached.push_back(a);
  };
  auto spread = [&](ById<ActorId, char>& marks, auto next) {
    while (!reached.empty()) {
      const Actor& a = plan.actor(reached.back());
      reached.pop_back();
      next(marks, a);
    }
  };
  auto consumers = [&](ById<ActorId, char>& marks, const Actor& a) {
    for (const Port& port : a.outputs)
      for (ActorId c : plan.reg(port.reg).consumers) reach(marks, c);
  };
  auto producers = [&](ById<ActorId, char>& marks, const Actor& a) {
    for (const Port& port : a.inputs) reach(marks, plan.reg(port.reg).producer);
  };
  for (const Register& r : plan.registers)
    if (r.producer == session_actor)
      for (ActorId c : r.consumers) reach(begins, c);
  spread(begins, consumers);
  for (const Register& r : plan.registers)
    if (std::find(r.consumers.begin(), r.consumers.end(), session_actor) != r.consumers.end()) reach(ends, r.producer);
  spread(ends, producers);
  for (ActorId i : plan.actors.ids()) {
    const Actor& a = plan.actors[i];
    bool serves_launch = a.body == BodyKind::input || a.body == BodyKind::fetch;
    bool writes_result =
        std::any_of(a.outputs.begin(), a.outputs.end(), [&](const Port& port) { return is_external(plan, port.reg); });
    if ((serves_launch || writes_result) && !begins[i])
      fail(name_of_actor(plan, i), writes_result ? " writes a result" : cat(": its body is ", name_of(a.body)),
           ", but no start register leads to it, so it could act before a launch begins");
    if (begins[i] && !ends[i])
      fail(name_of_actor(plan, i), " leads to no done register: the launch could end before this actor does");
  }
}

// Checks that turns and act ranges refer to existing acts.
void verify_acts(const Plan& plan, ActorId i, std::int64_t acts) {
  const Actor& a = plan.actors[i];
  const std::int64_t turns = a.collective ? static_cast<std::int64_t>(a.collective->turns.size()) : acts;
  if (turns != acts)
    fail(name_of_actor(plan, i), " acts ", times_text(acts), " in a launch, but has ", turns,
         turns == 1 ? " turn" : " turns");
  for (const Call& call : a.calls)
    if (!call.acts.all() && (call.acts.begin < 0 || call.acts.begin >= call.acts.end || call.acts.end > acts))
      fail(name_of_actor(plan, i), ", call ", call.kernel, ": runs in acts ", call.acts.begin, "..", call.acts.end,
           ", but the actor acts ", times_text(acts), " in a launch");
}

bool is_empty(const PeerBox& box, const View& view) {
  if (box.size.empty()) return !view.shape.empty();
  return std::find(box.size.begin(), box.size.end(), 0) != box.size.end();
}

// If both members of a pair are in this plan, the box that one sends must have the size of the box that the other
// receives.
void verify_peer_boxes(const Plan& plan) {
  std::map<std::pair<CommunicatorId, int>, std::map<int, ActorId>> members;  // by first turn and member number
  for (ActorId i : plan.actors.ids()) {
    if (!plan.actors[i].collective || plan.actors[i].collective->sends.empty()) continue;
    const Collective& c = *plan.actors[i].collective;
    const auto& group = plan.communicators[c.communicator].members;
    const auto place = std::find(group.begin(), group.end(), plan.devices[plan.stream(plan.actors[i].stream).device]);
    members[{c.communicator, c.turns[0]}][static_cast<int>(place - group.begin())] = i;
  }
  for (const auto& [key, actors] : members)
    for (const auto& [sender, from] : actors)
      for (const auto& [receiver, to] : actors) {
        const Collective &a = *plan.actors[from].collective, &b = *plan.actors[to].collective;
        if (b.receives.empty()) continue;
        const PeerBox &sent = a.sends[static_cast<std::size_t>(receiver)],
                      &received = b.receives[static_cast<std::size_t>(sender)];
        if (sent.size != received.size && (!is_empty(sent, a.in.view) || !is_empty(received, b.out.view)))
          fail(name_of_actor(plan, from), " sends a box of ", sent.size, " to ", name_of_actor(plan, to),
               ", which receives a box of ", received.size, " from it");
      }
}

}  // namespace

void verify(const Plan& plan) {
  verify_devices_and_blocks(plan);
  for (ActorId i : plan.actors.ids())
    require_in_range(plan.actors[i].stream, plan.streams, name_of_actor(plan, i), "stream");
  const PortIndex port_index(plan);
  for (RegisterId i : plan.registers.ids()) verify_register(plan, port_index, i);
  for (ActorId i : plan.actors.ids()) verify_actor(plan, port_index, i);
  for (const Call& call : plan.setup) verify_call(plan, port_index, no_actor, call, "set-up");
  for (std::size_t i = 0; i < plan.links.size(); ++i)
    require_in_range(plan.links[i].reg, plan.registers, cat("link ", i), "register");
  verify_acyclic(plan);
  verify_sequences(plan);
  verify_peer_boxes(plan);
  verify_within_launch(plan);
  auto acts = acts_per_launch(plan);
  std::int64_t work = messages_per_launch(plan), max_work = 1 << 24;  // the dry run handles each act and each message
  for (std::int64_t count : acts) work = checked_add(work, count);
  require(work <= max_work, "plan '", plan.name, "' has ", work, " acts and messages in a launch; the limit is ",
          max_work);
  verify_bindings(plan, acts);
  verify_sharing(plan, acts);
  for (ActorId i : plan.actors.ids()) verify_acts(plan, i, acts[i]);
  dry_run(plan);
}

}  // namespace karez::plan
