// Computes the peak of the bytes in use during a simulated run, from the byte ranges between adjacent slot boundaries.
#include <algorithm>

#include "karez/plan/external_registers.h"
#include "karez/runtime/simulator.h"

namespace karez::runtime {

ById<DeviceId, std::int64_t> peak_bytes(const Plan& plan, const Simulation& run) {
  auto begin_of = [&](RegisterId r, int slot) { return plan.reg(r).offset + slot * plan.reg(r).stride; };
  ById<BlockId, std::vector<std::int64_t>> ends(plan.blocks.size());
  for (RegisterId r : plan.registers.ids())
    for (int slot = 0; plan.reg(r).block.valid() && slot < plan.reg(r).slots; ++slot)
      for (const std::int64_t end : {begin_of(r, slot), begin_of(r, slot) + plan.reg(r).bytes})
        ends[plan.reg(r).block].push_back(end);
  // By boundary: the number of slots in use that contain the bytes from this boundary to the next.
  ById<BlockId, std::vector<int>> holders(plan.blocks.size());
  for (BlockId b : plan.blocks.ids()) {
    std::sort(ends[b].begin(), ends[b].end());
    ends[b].erase(std::unique(ends[b].begin(), ends[b].end()), ends[b].end());
    holders[b].resize(ends[b].size());
  }
  ById<DeviceId, std::int64_t> now(plan.devices.size(), 0), most(plan.devices.size(), 0);
  for (const SlotChange& change : run.slots) {
    if (is_external(plan, change.reg)) continue;  // in the memory of a result
    const BlockId b = plan.reg(change.reg).block;
    const DeviceId device = plan.block(b).device;
    const std::int64_t begin = begin_of(change.reg, change.slot), end = begin + plan.reg(change.reg).bytes;
    for (auto at = static_cast<std::size_t>(std::lower_bound(ends[b].begin(), ends[b].end(), begin) - ends[b].begin());
         ends[b][at] < end; ++at) {
      const std::int64_t bytes = ends[b][at + 1] - ends[b][at];
      if (change.acquired && holders[b][at]++ == 0) now[device] += bytes;
      if (!change.acquired && --holders[b][at] == 0) now[device] -= bytes;
    }
    most[device] = std::max(most[device], now[device]);
  }
  return most;
}

}  // namespace karez::runtime
