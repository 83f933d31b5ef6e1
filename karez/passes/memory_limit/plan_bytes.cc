// Sums bytes by device and returns those of the fullest device.
#include "karez/passes/memory_limit/plan_bytes.h"

#include <algorithm>
#include <map>

#include "karez/plan/live_bytes.h"

namespace karez::passes {

std::int64_t max_device_bytes(const Plan& plan) {
  const auto planned = planned_bytes(plan);
  return planned.empty() ? 0 : *std::max_element(planned.begin(), planned.end());
}

std::int64_t min_device_bytes(const Plan& plan) {
  const auto planned = planned_bytes(plan), arena = plan::arena_bytes(plan), live = plan::live_bytes(plan);
  std::int64_t max_bytes = 0;
  for (DeviceId d : planned.ids()) max_bytes = std::max(max_bytes, planned[d] - arena[d] + live[d]);
  return max_bytes;
}

std::int64_t constant_bytes(const Plan& plan) {
  std::int64_t max_bytes = 0;
  for (const plan::Block& block : plan.blocks)
    if (block.kind == plan::BlockKind::constant) max_bytes = std::max(max_bytes, block.bytes);
  return max_bytes;
}

std::int64_t moved_bytes(const LocalProgram& program) {
  std::map<int, std::int64_t> bytes;  // by device
  std::int64_t max_bytes = 0;
  for (const LocalCall& call : program.setup)
    for (LocalId out : call.out)
      if (!call.in.empty())
        max_bytes = std::max(max_bytes, bytes[program.values[out].device] += program.values[out].view.bytes());
  return max_bytes;
}

}  // namespace karez::passes
