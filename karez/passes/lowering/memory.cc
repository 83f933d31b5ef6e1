// Removes slots that cannot be used, packs the buffers of each device, and moves them to their offsets.
#include "karez/passes/lowering/memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/passes/lowering/arena_buffers.h"
#include "karez/passes/lowering/arena_packing.h"
#include "karez/passes/lowering/happens_before.h"

namespace karez::passes {
namespace {

// Reduces registers to one slot if their other slots can never be used, because each reader's act precedes the
// producer's next act.
void trim_slots(Plan& plan, const HappensBefore& order) {
  for (RegisterId id : plan.registers.ids()) {
    Register& r = plan.registers[id];
    if (r.slots == 1 || !in_arena(plan, r.block) || !order.is_in_step(id)) continue;
    if (std::all_of(r.consumers.begin(), r.consumers.end(),
                    [&](ActorId c) { return order.before_next_act(c, r.producer); }))
      r.slots = 1;
  }
}

// Moves every operand and register of the plan to its new offset, and removes blocks that become empty.
class BufferMover {
 public:
  BufferMover(Plan& plan, const std::set<BlockId>& packed_blocks)
      : plan_(plan),
        packed_blocks_(packed_blocks),
        new_block_(plan.blocks.size()) {
    ById<DeviceId, BlockId> arenas(plan.devices.size());  // the first packed block of each device
    ById<BlockId, plan::Block> blocks;
    for (BlockId b : plan.blocks.ids()) {
      const bool is_packed = packed_blocks.count(b) > 0;
      BlockId& arena = arenas[plan.blocks[b].device];
      if (is_packed && arena.valid()) {
        new_block_[b] = arena;
        continue;
      }
      new_block_[b] = blocks.add(plan.blocks[b]);
      if (!is_packed) continue;
      arena = new_block_[b];
      plan::Block& block = blocks[arena];
      block.kind = BlockKind::scratch, block.bytes = 0;
      block.name.clear();
    }
    plan.blocks = std::move(blocks);
  }

  void move(const std::vector<ArenaBuffer>& buffers, const std::vector<std::int64_t>& offset) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const ArenaBuffer& b = buffers[i];
      if (b.reg.valid()) {
        Register& r = plan_.registers[b.reg];
        r.stride = round_up(r.bytes, cache_line), r.offset = offset[i];
      } else {
        offsets_[b.block].push_back({b.begin, offset[i] + b.begin % cache_line});
      }
    }
    for (auto& [block, offsets] : offsets_) std::sort(offsets.begin(), offsets.end());
    for (Register& r : plan_.registers)
      if (r.block.valid()) r.block = new_block_[r.block];
    for (Actor& a : plan_.actors) {
      for (Call& call : a.calls) move_call(call);
      for (Operand& o : a.bound) move_operand(o);
      if (!a.collective) continue;
      move_operand(a.collective->in), move_operand(a.collective->out);
      if (a.collective->staging) move_operand(*a.collective->staging);
    }
    for (Call& call : plan_.setup) move_call(call);
  }
  BlockId new_block(BlockId old_block) const { return new_block_[old_block]; }

 private:
  void move_call(Call& call) {
    for (Operand& o : call.in) move_operand(o);
    for (Operand& o : call.out) move_operand(o);
    if (call.workspace) move_operand(*call.workspace);
  }
  void move_operand(Operand& o) {
    if (!o.block.valid()) return;
    if (packed_blocks_.count(o.block) > 0)
      o.offset = o.view.bytes() == 0 ? 0 : o.offset + shift_of(o);  // an empty operand has no buffer
    o.block = new_block_[o.block];
  }

  std::int64_t shift_of(const Operand& o) const {
    const auto& offsets = offsets_.at(o.block);
    const auto [old_offset, new_offset] =
        *std::prev(std::upper_bound(offsets.begin(), offsets.end(), std::pair(o.offset, std::int64_t{INT64_MAX})));
    return new_offset - old_offset;
  }

  Plan& plan_;
  const std::set<BlockId>& packed_blocks_;
  ById<BlockId, BlockId> new_block_;                                               // by old block
  std::map<BlockId, std::vector<std::pair<std::int64_t, std::int64_t>>> offsets_;  // old and new, by old block
};

}  // namespace

Plan memory(Plan plan, const solve::PackLimits& limits, std::size_t max_pairwise) {
  const HappensBefore order(plan);
  trim_slots(plan, order);
  const auto [buffers, packed_blocks] = find_buffers(plan, order);
  std::vector<std::int64_t> offset(buffers.size(), 0);
  ById<DeviceId, std::int64_t> peak(plan.devices.size(), 0);
  ConflictPacker by_pairs;
  for (DeviceId d : plan.devices.ids()) {
    std::vector<std::size_t> indices;
    std::vector<ArenaBuffer> device_buffers;
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].device == d) indices.push_back(i), device_buffers.push_back(buffers[i]);
    const DevicePacking packing = device_buffers.size() > max_pairwise
                                      ? pack_by_clocks(order, device_buffers, max_pairwise)
                                      : by_pairs.pack(order, device_buffers, limits);
    for (std::size_t i = 0; i < indices.size(); ++i) offset[indices[i]] = packing.offset[i];
    peak[d] = packing.peak;
  }
  BufferMover mover(plan, packed_blocks);
  for (BlockId b : packed_blocks) {
    plan::Block& arena = plan.blocks[mover.new_block(b)];
    arena.bytes = std::max(arena.bytes, peak[arena.device]);
  }
  mover.move(buffers, offset);
  return plan;
}

}  // namespace karez::passes
