// Prints a plan with one readable line per item, and hashes this text without the names for display.
#include "karez/base/text.h"
#include "karez/base/hash.h"
#include "karez/plan/catalog.h"
#include "karez/plan/plan.h"

namespace karez::plan {

std::string_view name_of(BlockKind kind) {
  switch (kind) {
    case BlockKind::scratch: return "scratch";
    case BlockKind::reg: return "register";
    case BlockKind::variable: return "variable";
    case BlockKind::constant: return "constant";
    case BlockKind::external: return "external";
  }
  return "?";
}

std::string_view name_of(BodyKind kind) {
  switch (kind) {
    case BodyKind::compute: return "compute";
    case BodyKind::input: return "input";
    case BodyKind::fetch: return "fetch";
    case BodyKind::state: return "state";
    case BodyKind::collective: return "collective";
  }
  return "?";
}

std::string print(const CallSpec& call) {
  auto views = [](const std::vector<View>& list) { return join(list, ", ", [](const View& v) { return print(v); }); };
  return cat(call.op, "(", views(call.in), ")", call.attrs.empty() ? "" : " " + call.attrs.print(), " -> ",
             views(call.out), call.device == "cpu" ? "" : " on " + call.device,
             call.team == 1 ? "" : cat(" team ", call.team));
}

// Fields with default values are not printed. Ids are printed as r3 (register), b0 (block) or a7 (actor).
namespace {

std::string actor_text(ActorId id) { return id == session_actor ? "session" : cat("a", id.index); }
std::string device_text(const PlanDevice& d) { return cat(d.rank, " ", d.device, " ", quote(d.kind)); }
std::string at_text(const std::string& where) { return where.empty() ? "" : " at " + quote(where); }
std::string ints_text(const std::vector<std::int64_t>& values) { return cat("[", join(values, ", "), "]"); }

std::string operand_text(const Operand& o) {
  std::string location = o.reg.valid() ? cat("r", o.reg) : o.block.valid() ? cat("b", o.block) : "none";
  if (o.reg.valid() && o.block.valid()) location += cat(" b", o.block);
  return cat(location, o.offset == 0 ? "" : cat(" + ", o.offset), " ", print(o.view));
}

std::string operands_text(std::string_view word, const std::vector<Operand>& list) {
  return list.empty() ? "" : cat(" ", word, " ", join(list, ", ", operand_text));
}

std::string call_text(const Call& c) {
  return cat(quote(c.kernel), c.attrs.empty() ? "" : " " + c.attrs.print(), operands_text("in", c.in),
             operands_text("out", c.out), c.workspace ? " workspace " + operand_text(*c.workspace) : "",
             c.team == 1 ? "" : cat(" team ", c.team),
             c.acts.all() ? "" : cat(" acts ", c.acts.begin, "..", c.acts.end), at_text(c.where));
}

std::string ports_text(std::string_view word, const std::vector<Port>& ports) {
  auto format = [](const Port& p) { return cat("r", p.reg, p.period == 1 ? "" : cat(" every ", p.period)); };
  return ports.empty() ? "" : cat(" ", word, " ", join(ports, ", ", format));
}

std::string boxes_text(std::string_view word, const std::vector<PeerBox>& boxes) {
  auto format = [](const PeerBox& p) { return cat(p.peer, " ", ints_text(p.begin), " ", ints_text(p.size)); };
  return boxes.empty() ? "" : cat(" ", word, " ", join(boxes, ", ", format));
}

std::string collective_text(const Collective& c) {
  return cat(quote(name_of(c.kind)), c.reduce ? " " + quote(name_of(*c.reduce)) : "", " by ",
             quote(name_of(c.algorithm)), " communicator ", c.communicator, " turn ", join(c.turns, ", "), " in ",
             operand_text(c.in), " out ", operand_text(c.out), boxes_text("sends", c.sends),
             boxes_text("receives", c.receives), c.staging ? " staging " + operand_text(*c.staging) : "",
             at_text(c.where));
}

void print_actor(std::string& out, ActorId number, const Actor& a) {
  out += cat("actor a", number, ": ", name_of(a.body), " ", quote(a.name), " stream ", a.stream,
             a.priority == 0 ? "" : cat(" priority ", a.priority), ports_text("in", a.inputs),
             ports_text("out", a.outputs), a.binding.empty() ? "" : " binding " + quote(a.binding), at_text(a.where),
             "\n");
  for (const Call& c : a.calls) out += cat("  call ", call_text(c), "\n");
  if (a.collective) out += cat("  collective ", collective_text(*a.collective), "\n");
  for (const Operand& o : a.bound) out += cat("  bound ", operand_text(o), "\n");
  for (const Attrs& s : a.slices) out += cat("  slice ", s.print(), "\n");
}

}  // namespace

std::string print(const Plan& plan) {
  std::string out = cat("plan ", quote(plan.name), " world ", plan.world, " rank ", plan.rank, " hash ",
                        static_cast<std::int64_t>(plan.program_hash), "\n");
  for (DeviceId i : plan.devices.ids()) out += cat("device ", i, ": ", device_text(plan.devices[i]), "\n");
  for (StreamId i : plan.streams.ids()) {
    const Stream& s = plan.streams[i];
    out += cat("stream ", i, ": ", quote(name_of(s.kind)), " device ", s.device, " worker ", s.worker, "\n");
  }
  for (BlockId i : plan.blocks.ids()) {
    const Block& b = plan.blocks[i];
    out +=
        cat("block b", i, ": ", name_of(b.kind), " device ", b.device, " bytes ", b.bytes,
            b.name.empty() ? "" : " name " + quote(b.name), b.layout.empty() ? "" : " layout " + quote(b.layout), "\n");
  }
  for (RegisterId i : plan.registers.ids()) {
    const Register& r = plan.registers[i];
    out += cat("register r", i, ": ", actor_text(r.producer), " -> ",
               r.consumers.empty() ? "none" : join(r.consumers, ", ", actor_text),
               r.slots == 1 ? "" : cat(" slots ", r.slots), r.bytes == 0 ? "" : cat(" bytes ", r.bytes),
               r.block.valid() ? cat(" in b", r.block) : "", r.offset == 0 ? "" : cat(" + ", r.offset),
               r.stride == 0 ? "" : cat(" stride ", r.stride), r.type.empty() ? "" : " type " + quote(r.type), "\n");
  }
  for (ActorId i : plan.actors.ids()) print_actor(out, i, plan.actors[i]);
  for (const Link& l : plan.links)
    out += cat("link r", l.reg, l.send ? " to " : " from ", device_text(l.peer), " chunk ", l.chunk, "\n");
  for (CommunicatorId i : plan.communicators.ids()) {
    const Communicator& c = plan.communicators[i];
    out += cat("communicator ", i, ": chunk ", c.chunk, " members ", join(c.members, ", ", device_text), " sequence ",
               join(c.sequence, ", ", [](const std::string& s) { return quote(s); }), "\n");
  }
  for (const Transfer& t : plan.transfers)
    out += cat("transfer ", quote(name_of(t.kind)), " ", quote(t.axis), " bytes ", t.bytes, " ", quote(t.value), "\n");
  for (const Call& c : plan.setup) out += cat("setup ", call_text(c), "\n");
  for (const std::string& line : split(trim(plan.costs), '\n'))
    if (!line.empty()) out += cat("cost ", line, "\n");
  if (plan.data_bytes > 0) out += cat("data bytes ", plan.data_bytes, "\n");
  return out;
}

std::uint64_t rank_hash(const Plan& plan) {
  Plan bare = plan;
  bare.name.clear();
  bare.costs.clear();
  bare.data_bytes = 0;
  for (Register& r : bare.registers) r.type.clear();
  for (Actor& a : bare.actors) {
    a.name.clear();
    a.where.clear();
    for (Call& c : a.calls) c.where.clear();
    if (a.collective) a.collective->where.clear();
  }
  for (Communicator& c : bare.communicators)
    for (std::string& s : c.sequence) s.clear();
  for (Transfer& t : bare.transfers) t.value.clear();
  for (Call& c : bare.setup) c.where.clear();
  return hash_text(print(bare));
}

}  // namespace karez::plan
