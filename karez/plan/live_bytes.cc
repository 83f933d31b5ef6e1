// Computes live bytes: divides each block at the boundaries of operands, and follows the value in each range.
#include "karez/plan/live_bytes.h"

#include <algorithm>

#include "karez/plan/dry_run.h"

namespace karez::plan {
namespace {

struct Access {
  BlockId block;
  std::int64_t begin = 0, end = 0;  // bytes of the block
  int time = 0;
  bool writes = false, partial = false;  // partial: a write that keeps the bytes between its elements
};

bool is_in_arena(BlockKind kind) { return kind == BlockKind::scratch || kind == BlockKind::reg; }

class Accesses {
 public:
  explicit Accesses(const Plan& plan) : plan_(plan), acts_(plan.actors.size(), 0) {
    for (ActorId a : dry_run(plan).order) act(plan.actor(a), acts_[a]++);
  }
  std::vector<Access> items;
  int time = 0;

 private:
  // The bound assumes that pieces use the slots in rotation, so the number of the act determines the slot.
  void add(const Actor& actor, std::int64_t act, const Operand& o, bool writes) {
    Access access{o.block, o.offset, 0,
                  time,    writes,   writes && o.view.bytes() != o.view.count() * size_of(o.view.dtype)};
    if (o.reg.valid()) {
      const Register& r = plan_.reg(o.reg);
      access.block = r.block;
      for (const auto* ports : {&actor.inputs, &actor.outputs})
        for (const Port& port : *ports)
          if (port.reg == o.reg) access.begin += r.offset + act / port.period % r.slots * r.stride;
    }
    access.end = access.begin + o.view.bytes();
    if (access.block.valid() && access.end > access.begin && is_in_arena(plan_.block(access.block).kind))
      items.push_back(access);
  }
  void act(const Actor& actor, std::int64_t number) {
    for (const Call& call : actor.calls) {
      if (!call.acts.has(number)) continue;
      for (const Operand& in : call.in) add(actor, number, in, false);
      for (const Operand& out : call.out) add(actor, number, out, true);
      if (call.workspace) add(actor, number, *call.workspace, true);
      ++time;
    }
    for (const Operand& bound : actor.bound) add(actor, number, bound, actor.body == BodyKind::input);
    if (actor.collective) {
      add(actor, number, actor.collective->in, false);
      add(actor, number, actor.collective->out, true);
      if (actor.collective->staging) add(actor, number, *actor.collective->staging, true);
    }
    ++time;
  }

  const Plan& plan_;
  ById<ActorId, std::int64_t> acts_;
};

// The state of the bytes between two neighbouring boundaries of operands. These bytes are always accessed together.
struct ByteRange {
  int begin = -1, last = -1;   // the call that writes the current value, and the last call that accesses it so far
  bool partial_write = false;  // the last access was a partial write
};

}  // namespace

ById<DeviceId, std::int64_t> live_bytes(const Plan& plan) {
  const Accesses accesses(plan);
  ById<BlockId, std::vector<std::int64_t>> ends(plan.blocks.size());
  for (const Access& a : accesses.items) ends[a.block].push_back(a.begin), ends[a.block].push_back(a.end);
  ById<BlockId, std::vector<ByteRange>> byte_ranges(plan.blocks.size());
  for (BlockId b : plan.blocks.ids()) {
    std::sort(ends[b].begin(), ends[b].end());
    ends[b].erase(std::unique(ends[b].begin(), ends[b].end()), ends[b].end());
    byte_ranges[b].resize(ends[b].size());
  }
  ById<DeviceId, std::vector<std::int64_t>> change(
      plan.devices.size(), std::vector<std::int64_t>(static_cast<std::size_t>(accesses.time) + 2, 0));
  auto close = [&](BlockId b, std::size_t at) {
    const ByteRange& s = byte_ranges[b][at];
    if (s.begin < 0) return;
    auto& of_device = change[plan.block(b).device];
    const std::int64_t bytes = ends[b][at + 1] - ends[b][at];
    of_device[static_cast<std::size_t>(s.begin)] += bytes;
    of_device[static_cast<std::size_t>(s.last) + 1] -= bytes;
  };
  for (const Access& a : accesses.items) {
    const auto& bounds = ends[a.block];
    for (auto at = static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), a.begin) - bounds.begin());
         bounds[at] < a.end; ++at) {
      ByteRange& s = byte_ranges[a.block][at];
      const bool keeps_value = !a.writes || (a.partial && s.partial_write) ||
                               s.last == a.time;  // last condition: the same call reads and writes it
      if (s.begin < 0) s.begin = a.writes ? a.time : 0;
      else if (!keeps_value) close(a.block, at), s.begin = a.time;
      s.last = a.time;
      s.partial_write = a.partial;
    }
  }
  for (BlockId b : plan.blocks.ids())
    for (std::size_t at = 0; at < byte_ranges[b].size(); ++at) close(b, at);
  ById<DeviceId, std::int64_t> peak(plan.devices.size(), 0);
  for (DeviceId d : plan.devices.ids()) {
    std::int64_t live = 0;
    for (std::int64_t change_at : change[d]) peak[d] = std::max(peak[d], live += change_at);
  }
  return peak;
}

ById<DeviceId, std::int64_t> run_ahead_bytes(const Plan& plan) {
  ById<DeviceId, std::int64_t> bytes(plan.devices.size(), 0);
  for (const Register& r : plan.registers)
    if (r.block.valid() && is_in_arena(plan.block(r.block).kind))
      bytes[plan.block(r.block).device] += (r.slots - 1) * r.bytes;
  return bytes;
}

ById<DeviceId, std::int64_t> arena_bytes(const Plan& plan) {
  ById<DeviceId, std::int64_t> bytes(plan.devices.size(), 0);
  for (const Block& b : plan.blocks)
    if (is_in_arena(b.kind)) bytes[b.device] += b.bytes;
  return bytes;
}

}  // namespace karez::plan
