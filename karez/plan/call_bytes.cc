// Sums the distinct bytes of operands and results.
#include "karez/plan/call_bytes.h"

#include <algorithm>

#include "karez/plan/acts.h"

namespace karez::plan {
namespace {

std::int64_t distinct_bytes(const std::vector<Operand>& operands) {
  std::int64_t bytes = 0;
  for (auto o = operands.begin(); o != operands.end(); ++o)
    if (std::find(operands.begin(), o, *o) == o)
      bytes += std::min(o->view.count(), o->view.extent()) * size_of(o->view.dtype);
  return bytes;
}

}  // namespace

std::int64_t bytes_of(const Call& call) { return distinct_bytes(call.in) + distinct_bytes(call.out); }

std::int64_t bytes_of_calls(const Plan& plan) {
  const auto acts = acts_per_launch(plan);
  std::int64_t bytes = 0;
  for (ActorId a : plan.actors.ids())
    for (const Call& call : plan.actor(a).calls)
      bytes += bytes_of(call) * (call.acts.all() ? acts[a] : call.acts.end - call.acts.begin);
  return bytes;
}

}  // namespace karez::plan
