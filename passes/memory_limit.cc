// The ten largest tensors of a device that has too few bytes.
#include "passes/memory_limit.h"

#include <algorithm>

#include "base/text.h"

namespace karez::passes {
namespace {

struct Held {
  std::int64_t bytes;
  LocalId value;
};

std::string text_of(const Compilation& c, const Held& held) {
  const LocalValue& local = c.local.values[held.value];
  std::string who = print(local.view);
  if (local.variable >= 0) {
    const graph::Variable& variable = c.graph.variables[static_cast<std::size_t>(local.variable)];
    who = cat("variable '", variable.name, "' ", who);
  } else if (local.value.valid()) {
    who += cat(" of ", describe(c.graph, c.graph.value(local.value).producer));
  }
  const int slots = local.variable < 0 && local.value.valid() ? c.slotted.slots[local.value] : 1;
  return cat("  ", bytes_text(held.bytes), "  ", who, slots > 1 ? cat(", if in a register ", slots, " times") : "");
}

}  // namespace

bool fits(const Plan& plan, std::int64_t bytes) {
  const auto planned = planned_bytes(plan);
  return std::all_of(planned.begin(), planned.end(), [&](std::int64_t held) { return held <= bytes; });
}

void check_memory(const Compilation& c, std::int64_t bytes) {
  const auto planned = planned_bytes(c.plan);
  for (DeviceId device : planned.ids()) {
    if (planned[device] <= bytes) continue;
    std::vector<Held> held;
    for (LocalId v : c.local.values.ids())
      if (c.local.values[v].root == v && std::max(c.local.values[v].device, 0) == device.index)  // what the host holds lies with the first
        held.push_back({c.local.values[v].view.bytes(), v});
    std::stable_sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.bytes > b.bytes; });
    const std::size_t all = held.size();
    held.resize(std::min<std::size_t>(all, 10));
    const PlanDevice& d = c.plan.devices[device];
    fail(ErrorKind::device, "plan '", c.plan.name, "' takes ", bytes_text(planned[device]), " (", planned[device], " bytes) on device ", d.rank, ".",
         d.device, ", but ", bytes_text(bytes), " (", bytes, " bytes) are allowed there; the largest ", held.size(), " of its ", all, " tensors:\n",
         join(held, "\n", [&](const Held& h) { return text_of(c, h); }));
  }
}

}  // namespace karez::passes
