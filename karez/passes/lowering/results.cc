// Moves registers that are fetched completely into external blocks.
#include "karez/passes/lowering/results.h"

#include <algorithm>
#include <set>

#include "karez/passes/lowering/arena_buffers.h"
#include "karez/plan/acts.h"

namespace karez::passes {

Plan results(Plan plan) {
  std::set<RegisterId> linked;
  for (const plan::Link& link : plan.links) linked.insert(link.reg);
  const auto acts = plan::acts_per_launch(plan);
  auto fills_once = [&](const Actor& producer, ActorId id, RegisterId reg) {
    const auto port = std::find_if(producer.outputs.begin(), producer.outputs.end(),
                                   [&](const plan::Port& p) { return p.reg == reg; });
    return port->period == acts[id];
  };
  for (const Actor& fetch : plan.actors) {
    if (fetch.body != BodyKind::fetch) continue;
    const Operand& operand = fetch.bound[0];
    if (!operand.reg.valid() || linked.contains(operand.reg)) continue;
    Register& reg = plan.registers[operand.reg];
    if (reg.bytes == 0 || !in_arena(plan, reg.block)) continue;
    const Actor& producer = plan.actor(reg.producer);
    if ((producer.body != BodyKind::compute && producer.body != BodyKind::collective) ||
        !fills_once(producer, reg.producer, operand.reg))
      continue;
    const bool whole = operand.offset == 0 && operand.view.bytes() == reg.bytes &&
                       operand.view == View(operand.view.dtype, operand.view.shape);
    if (!whole) continue;
    const DeviceId device = plan.blocks[reg.block].device;
    reg.block = plan.blocks.add({BlockKind::external, device, reg.bytes, fetch.binding, ""});
    reg.offset = 0, reg.stride = 0;
  }
  return plan;
}

}  // namespace karez::passes
