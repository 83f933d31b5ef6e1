// Finds the calls at which each buffer of a plan is in use.
#include "karez/passes/lowering/arena_buffers.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace karez::passes {
namespace {

// The range of a block that is used by a register, or by an operand at a fixed offset.
struct BlockUse {
  std::int64_t begin = 0, end = 0;
  RegisterId reg;  // valid for a register
  ActorId actor;   // valid for an operand; `reg` and `actor` are both invalid for the setup
  int first_call = 0, last_call = 0;
  bool writes = false, in_some_acts = false;  // in_some_acts: a call that does not run in every act writes the range
  bool has_owner_of(const BlockUse& other) const {
    return reg == other.reg && actor == other.actor && (reg.valid() || actor.valid());
  }
};

class BufferFinder {
 public:
  BufferFinder(const Plan& plan, const HappensBefore& order)
      : plan_(plan),
        order_(order),
        register_calls_(plan.registers.size()) {}

  BufferTable run() {
    for (ActorId a : plan_.actors.ids()) add_uses_of(a);
    for (const Call& call : plan_.setup)
      for (const auto* operands : {&call.in, &call.out})
        for (const Operand& o : *operands) add_use({}, 0, 0, o, true);
    for (const Link& link : plan_.links) linked_registers_.insert(link.reg);
    for (RegisterId id : plan_.registers.ids()) {
      const Register& r = plan_.registers[id];
      if (in_arena(plan_, r.block))
        uses_[r.block].push_back({r.offset, r.offset + (r.slots - 1) * r.stride + r.bytes, id, {}, 0, 0, false, false});
    }
    for (auto& [block, uses] : uses_) add_block(block, uses);
    return std::move(table_);
  }

 private:
  void add_uses_of(ActorId id) {
    const Actor& a = plan_.actor(id);
    for (std::size_t i = 0; i < a.calls.size(); ++i) {
      const int call = static_cast<int>(i);
      const bool in_some_acts = !a.calls[i].acts.all();
      for (const Operand& in : a.calls[i].in) add_use(id, call, call, in, false, in_some_acts);
      for (const Operand& out : a.calls[i].out) add_use(id, call, call, out, true, in_some_acts);
      if (a.calls[i].workspace) add_use(id, call, call, *a.calls[i].workspace, true);
    }
    for (const Operand& o : a.bound) add_use(id, 0, whole_act, o, a.body == BodyKind::input);
    if (!a.collective) return;
    add_use(id, 0, whole_act, a.collective->in, false);
    add_use(id, 0, whole_act, a.collective->out, true);
    if (a.collective->staging) add_use(id, 0, whole_act, *a.collective->staging, true);
  }

  void add_use(ActorId actor, int first_call, int last_call, const Operand& o, bool writes, bool in_some_acts = false) {
    if (o.reg.valid()) {
      if (in_some_acts) first_call = before_act, last_call = whole_act;  // the first call that uses it differs by act
      auto& calls = register_calls_[o.reg].try_emplace(actor, std::pair(first_call, last_call)).first->second;
      calls = {std::min(calls.first, first_call), std::max(calls.second, last_call)};
    } else if (in_arena(plan_, o.block) && o.view.bytes() > 0) {
      uses_[o.block].push_back(
          {o.offset, o.offset + o.view.bytes(), {}, actor, first_call, last_call, writes, writes && in_some_acts});
    }
  }

  // Overlapping operands of one actor are one buffer. A block with any other overlap is not packed.
  void add_block(BlockId block, std::vector<BlockUse>& uses) {
    std::sort(uses.begin(), uses.end(),
              [](const BlockUse& a, const BlockUse& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
    std::vector<ArenaBuffer> buffers;
    for (std::size_t i = 0; i < uses.size();) {
      BlockUse joined = uses[i];
      int first_write = joined.writes ? joined.first_call : whole_act;
      for (++i; i < uses.size() && uses[i].begin < joined.end; ++i) {
        const BlockUse& use = uses[i];
        if (!joined.has_owner_of(use) || use.reg.valid()) return;
        joined.end = std::max(joined.end, use.end);
        joined.reg = {};
        joined.first_call = std::min(joined.first_call, use.first_call);
        joined.last_call = std::max(joined.last_call, use.last_call);
        joined.writes = true;
        joined.in_some_acts = joined.in_some_acts || use.in_some_acts;
        if (use.writes) first_write = std::min(first_write, use.first_call);
      }
      if (!joined.reg.valid() && !joined.actor.valid()) return;
      buffers.push_back(joined.reg.valid() ? register_buffer(joined.reg) : operand_buffer(block, joined, first_write));
    }
    table_.buffers.insert(table_.buffers.end(), buffers.begin(), buffers.end());
    table_.packed_blocks.insert(block);
  }

  ArenaBuffer register_buffer(RegisterId id) const {
    const Register& r = plan_.reg(id);
    ArenaBuffer b;
    b.reg = id;
    b.bytes = r.slots * round_up(r.bytes, cache_line);
    b.device = plan_.block(r.block).device;
    b.is_exclusive = linked_registers_.count(id) > 0 || !order_.is_in_step(id);
    // An actor with a port for the register, but without a call that uses the register, may use it in its whole act.
    auto calls_of = [&](ActorId a) {
      auto found = register_calls_[id].find(a);
      return found == register_calls_[id].end() ? std::pair(0, whole_act) : found->second;
    };
    b.first_call = {r.producer, calls_of(r.producer).first};
    for (ActorId c : r.consumers) b.last_calls.push_back({c, calls_of(c).second});
    return b;
  }

  ArenaBuffer operand_buffer(BlockId block, const BlockUse& use, int first_write) const {
    ArenaBuffer b;
    b.block = block;
    b.begin = use.begin;
    b.bytes =
        round_up(use.end, cache_line) - use.begin / cache_line * cache_line;  // keeps the offset in the cache line
    b.device = plan_.block(block).device;
    // Bytes that are read before they are written, or that are written only in some acts, may come from another act.
    b.is_exclusive = first_write > use.first_call || use.in_some_acts;
    b.first_call = {use.actor, use.first_call};
    b.last_calls = {{use.actor, use.last_call}};
    if (plan_.actor(use.actor).body == BodyKind::compute) b.stream = plan_.actor(use.actor).stream;
    return b;
  }

  const Plan& plan_;
  const HappensBefore& order_;
  BufferTable table_;
  ById<RegisterId, std::map<ActorId, std::pair<int, int>>> register_calls_;  // by actor: first and last call
  std::set<RegisterId> linked_registers_;
  std::map<BlockId, std::vector<BlockUse>> uses_;
};

}  // namespace

bool in_arena(const Plan& plan, BlockId b) {
  return b.valid() && (plan.block(b).kind == BlockKind::scratch || plan.block(b).kind == BlockKind::reg);
}

BufferTable find_buffers(const Plan& plan, const HappensBefore& order) { return BufferFinder(plan, order).run(); }

}  // namespace karez::passes
