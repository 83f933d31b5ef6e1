// Allocates blocks, and computes the addresses of operands.
#include "karez/runtime/load/block_memory.h"

#include <algorithm>
#include <utility>

#include "karez/plan/external_registers.h"
#include "karez/runtime/actor/poison.h"

namespace karez::runtime {
namespace {

bool is_shared(const Block& b) { return b.kind == BlockKind::scratch || b.kind == BlockKind::reg; }

struct VariableAllocation {
  LoadedPlan& loaded;
  VariableStore& variables;
  const bool with_poison;
  NewVariables new_variables;

  std::byte* address(const Block& b, Device& device) {
    auto key = std::pair{device.name(), b.name};
    const std::shared_ptr<Variable> known = variables.find(key);
    if (known == nullptr) {
      auto variable = std::make_shared<Variable>(Variable{b.layout, device.allocate(b.bytes)});
      if (with_poison) poison(variable->memory.data(), b.bytes);
      new_variables.emplace(key, variable);
      return hold(std::move(variable));
    }
    const Variable& v = *known;
    require(v.layout == b.layout && v.memory.bytes() == b.bytes, "plan '", loaded.plan.name, "': variable '", b.name,
            "' of device ", device.name(), " is stored as ", v.layout, " (", v.memory.bytes(),
            " bytes), but this plan requires ", b.layout, " (", b.bytes, " bytes)");
    return hold(known);
  }

  std::byte* hold(std::shared_ptr<Variable> variable) {
    return loaded.variables.emplace_back(std::move(variable))->memory.data();
  }
};

}  // namespace

// Registers and scratch hold no data between launches. So all plans of a device keep these blocks in one arena, and
// their launches are ordered. Constants, which a plan computes when it is loaded, are not in the arena.
NewVariables allocate_blocks(LoadedPlan& loaded, VariableStore& variables, const MemoryOptions& options) {
  VariableAllocation allocation{loaded, variables, options.poison, {}};
  std::map<DeviceId, std::int64_t> shared;
  ById<BlockId, std::int64_t> offset;
  for (const Block& b : loaded.plan.blocks) {
    offset.push_back(shared.contains(b.device) ? shared[b.device] : 0);
    if (is_shared(b)) shared[b.device] = offset.back() + base::round_up(b.bytes, 64);
  }
  std::map<DeviceId, std::byte*> arenas;
  for (const auto& [id, bytes] : shared) {
    if (bytes == 0) continue;
    auto lease = loaded.devices[id]->arena().lease(bytes);
    if (!lease) continue;
    arenas[id] = lease->data();
    if (const std::int64_t zeroed_from = base::round_up(lease->zeroed_from(), 64);
        options.poison && bytes > zeroed_from)
      poison(lease->data() + zeroed_from, bytes - zeroed_from);
    loaded.arenas.push_back(std::move(*lease));
    const std::shared_ptr<Variable> written = variables.arena(loaded.devices[id]->name());
    if (options.order_arena_plans)
      loaded.accesses.push_back({loaded.variables_of_arenas.emplace_back(written).get(), true});
  }
  for (BlockId id : loaded.plan.blocks.ids()) {
    const Block& b = loaded.plan.blocks[id];
    Device& device = *loaded.devices[b.device];
    if (b.kind == BlockKind::variable) {
      loaded.block_address.push_back(allocation.address(b, device));
      continue;
    }
    if (is_shared(b) && arenas.contains(b.device)) {
      loaded.block_address.push_back(arenas[b.device] + offset[id]);
      continue;
    }
    if (b.kind == BlockKind::external) {  // each launch has memory for it
      loaded.block_address.push_back(nullptr);
      continue;
    }
    loaded.memory.push_back(device.allocate(b.bytes));
    if (options.poison) poison(loaded.memory.back().data(), b.bytes);
    loaded.block_address.push_back(loaded.memory.back().data());
  }
  return std::move(allocation.new_variables);
}

void find_slot_addresses(LoadedPlan& loaded) {
  loaded.slot_addresses.resize(loaded.plan.registers.size());
  for (RegisterId id : loaded.plan.registers.ids())
    if (is_external(loaded.plan, id))
      loaded.slot_addresses[id].resize(static_cast<std::size_t>(loaded.plan.reg(id).slots));
  for (const Actor& actor : loaded.plan.actors) {
    if (actor.body != BodyKind::input) continue;
    for (const Operand& o : actor.bound) {
      const auto same = std::count_if(actor.bound.begin(), actor.bound.end(),
                                      [&](const Operand& other) { return other.reg == o.reg; });
      if (!o.reg.valid() || !loaded.plan.reg(o.reg).block.valid() || o.offset != 0 || same > 1) continue;
      const Register& r = loaded.plan.reg(o.reg);
      for (int slot = 0; slot < r.slots; ++slot)
        loaded.slot_addresses[o.reg].push_back(loaded.block_address[r.block] + r.offset + slot * r.stride);
    }
  }
}

void locate(LoadedPlan& loaded, ActorState& a, const Operand& o, std::byte** cell) {
  *cell = nullptr;
  if (!o.reg.valid()) {
    if (o.block.valid()) *cell = loaded.block_address[o.block] + o.offset;
    return;
  }
  const Register& r = loaded.plan.reg(o.reg);
  if (!r.block.valid()) return;  // an empty tensor
  std::vector<std::byte*>& slot_addresses = loaded.slot_addresses[o.reg];
  const bool has_slot_addresses = !slot_addresses.empty() && a.actor->body != BodyKind::input;
  std::byte* base = is_external(loaded.plan, o.reg) ? nullptr : loaded.block_address[r.block] + r.offset + o.offset;
  *cell = base;
  if (r.slots == 1 && !has_slot_addresses) return;
  auto find = [&](const std::vector<Port>& ports) {
    auto at = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.reg == o.reg; });
    return at == ports.end() ? -1 : static_cast<int>(at - ports.begin());
  };
  int out = find(a.actor->outputs), port = out >= 0 ? out : find(a.actor->inputs);
  auto at = std::find_if(a.patched.begin(), a.patched.end(),
                         [&](const PatchedPort& p) { return p.output == (out >= 0) && p.port == port; });
  if (at == a.patched.end())
    at =
        a.patched.insert(at, PatchedPort{out >= 0, port, -1, has_slot_addresses ? slot_addresses.data() : nullptr, {}});
  at->patches.push_back({cell, base, r.stride, o.offset});
}

}  // namespace karez::runtime
