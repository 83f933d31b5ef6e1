// Lists the ten largest tensors of a device that exceeds its limit.
#include "karez/passes/memory_limit/memory_limit.h"

#include <algorithm>

#include "karez/base/text.h"

namespace karez::passes {
namespace {

struct LiveTensor {
  std::int64_t bytes;
  LocalId value;
};

std::string type_of(const TensorType& type, const Mesh& mesh, const Layout& layout) {
  return mesh.rank() == 0 ? print(type) : sbp::print(type, mesh, layout);
}

std::string text_of(const Compilation& c, const LiveTensor& held) {
  const LocalValue& local = c.local.values[held.value];
  std::string who = print(local.view);
  if (local.variable >= 0) {
    const graph::Variable& variable = c.graph.variables[static_cast<std::size_t>(local.variable)];
    who = cat("variable '", variable.name, "' ",
              type_of(variable.type, c.graph.meshes[static_cast<std::size_t>(variable.mesh)], *variable.stored));
  } else if (local.value.valid()) {
    const bool whole = local.device < 0;  // on the host; each device takes its part of it
    who = cat(whole ? print(c.graph.type(local.value))
                    : type_of(c.graph.type(local.value), c.graph.mesh(local.value), *c.graph.value(local.value).layout),
              " of ", describe(c.graph, c.graph.value(local.value).producer), whole ? ", whole for all devices" : "");
  }
  const int slots = local.variable < 0 && local.value.valid() ? c.slot_assignment.slots[local.value] : 1;
  return cat("  ", bytes_text(held.bytes), "  ", who, slots > 1 ? cat(", ", slots, " times if in a register") : "");
}

std::vector<LiveTensor> live_tensors(const Compilation& c, DeviceId device) {
  std::vector<LiveTensor> held;
  for (LocalId v : c.local.values.ids())
    if (c.local.values[v].root == v &&
        std::max(c.local.values[v].device, 0) == device.index)  // values on the host count for the first device
      held.push_back({c.local.values[v].view.bytes(), v});
  std::stable_sort(held.begin(), held.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  return held;
}

std::string memory_suggestions(const Compilation& c, DeviceId device) {
  std::int64_t state = 0, all = 0;
  for (const Block& block : c.plan.blocks) {
    if (block.device != device) continue;
    all += block.bytes;
    if (block.kind == BlockKind::variable) state += block.bytes;
  }
  const bool fed = std::any_of(c.graph.nodes.begin(), c.graph.nodes.end(),
                               [](const Node& node) { return node.op->role == Role::source; });
  const bool floats = std::any_of(c.graph.values.begin(), c.graph.values.end(),
                                  [](const Value& value) { return value.type.dtype == DType::f32; });
  std::string out;
  if (state > 0) out += cat("\n  more devices, to split the ", bytes_text(state), " of variables");
  if (fed)
    out += cat("\n  a smaller batch", c.options.microbatches == 1 ? ", or microbatches" : ", or more microbatches",
               ", for the ", bytes_text(all - state), " of the launch's values");
  if (std::find(c.options.off.begin(), c.options.off.end(), "recompute") != c.options.off.end())
    out += "\n  recomputation, which is switched off";
  if (floats && !c.options.amp) out += "\n  amp=\"bf16\", for the f32 values among them";
  return out.empty() ? "" : cat("\nsuggestions:", out);
}

}  // namespace

void fail_memory_limit(const Compilation& c, std::int64_t bytes, std::size_t plans) {
  const auto planned = planned_bytes(c.plan);
  DeviceId device(0);
  for (DeviceId d : planned.ids())
    if (planned[d] > planned[device]) device = d;
  std::vector<LiveTensor> held = live_tensors(c, device);
  const std::size_t all = held.size();
  held.resize(std::min<std::size_t>(all, 10));
  const PlanDevice& d = c.plan.devices[device];
  fail(ErrorKind::device, "plan '", c.plan.name, "' needs ", bytes_text(planned[device]), " (", planned[device],
       " bytes) on device ", d.rank, ".", d.device, ", but the limit is ", bytes_text(bytes), " (", bytes,
       " bytes); the largest ", held.size(), " of its ", all, " tensors, in the smallest of ", plans,
       plans == 1 ? " plan" : " plans", " tried:\n",
       join(held, "\n", [&](const LiveTensor& h) { return text_of(c, h); }), memory_suggestions(c, device));
}

}  // namespace karez::passes
