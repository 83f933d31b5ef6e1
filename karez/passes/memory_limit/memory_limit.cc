// Lists the ten largest tensors of a device that exceeds the limit.
#include "karez/passes/memory_limit/memory_limit.h"

#include <algorithm>
#include <set>

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

std::string text_of(const Compilation& c, const LiveTensor& tensor) {
  const LocalValue& local = c.local.values[tensor.value];
  std::string description = print(local.view);
  if (local.variable >= 0) {
    const graph::Variable& variable = c.graph.variables[static_cast<std::size_t>(local.variable)];
    description =
        cat("variable '", variable.name, "' ",
            type_of(variable.type, c.graph.meshes[static_cast<std::size_t>(variable.mesh)], *variable.stored));
  } else if (local.value.valid()) {
    const bool is_on_host = local.device < 0;  // the value is on the host, and each device takes its part
    description = cat(
        is_on_host ? print(c.graph.type(local.value))
                   : type_of(c.graph.type(local.value), c.graph.mesh(local.value), *c.graph.value(local.value).layout),
        " of ", describe(c.graph, c.graph.value(local.value).producer),
        is_on_host ? ", the whole value on the host, for all devices" : "");
  }
  const int slots = local.variable < 0 && local.value.valid() ? c.slot_assignment.slots[local.value] : 1;
  return cat("  ", bytes_text(tensor.bytes), "  ", description,
             slots > 1 ? cat(", in up to ", slots, " copies (the slots of its register)") : "");
}

std::vector<LiveTensor> live_tensors(const Compilation& c, DeviceId device) {
  std::vector<LiveTensor> tensors;
  std::set<LocalId> results;  // they are in the memory of the user
  for (const LocalOutput& output : c.local.outputs)
    for (const Block& block : c.plan.blocks)
      if (block.kind == BlockKind::external && block.name == output.output && block.device.index == output.device)
        results.insert(c.local.values[output.value].root);
  for (LocalId v : c.local.values.ids())
    // Values on the host are attributed to the first device.
    if (c.local.values[v].root == v && std::max(c.local.values[v].device, 0) == device.index && !results.contains(v))
      tensors.push_back({c.local.values[v].view.bytes(), v});
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  return tensors;
}

std::string memory_suggestions(const Compilation& c, DeviceId device) {
  std::int64_t variable_bytes = 0;
  const std::int64_t total_bytes = planned_bytes(c.plan)[device];
  for (const Block& block : c.plan.blocks)
    if (block.device == device && block.kind == BlockKind::variable) variable_bytes += block.bytes;
  const bool has_inputs = std::any_of(c.graph.nodes.begin(), c.graph.nodes.end(),
                                      [](const Node& node) { return node.op->role == Role::source; });
  const bool has_f32 = std::any_of(c.graph.values.begin(), c.graph.values.end(),
                                   [](const Value& value) { return value.type.dtype == DType::f32; });
  std::string suggestions;
  if (variable_bytes > 0)
    suggestions += cat("\n  more devices, to split the ", bytes_text(variable_bytes), " of variables");
  if (has_inputs)
    suggestions += cat("\n  a smaller batch, or ", c.options.microbatches == 1 ? "microbatches" : "more microbatches",
                       ", to reduce the ", bytes_text(total_bytes - variable_bytes), " of the launch's values");
  if (std::find(c.options.off.begin(), c.options.off.end(), "recompute") != c.options.off.end())
    suggestions += "\n  recomputation, which is switched off";
  if (c.options.data_bytes > 0) suggestions += "\n  data sets that hold fewer bytes: with_options(bytes=...)";
  if (has_f32 && !c.options.amp) suggestions += "\n  amp=\"bf16\", to store f32 values in half the bytes";
  return suggestions.empty() ? "" : cat("\nsuggestions:", suggestions);
}

}  // namespace

void fail_memory_limit(const Compilation& c, std::int64_t limit, std::size_t plans) {
  const auto planned = planned_bytes(c.plan);
  DeviceId device(0);
  for (DeviceId d : planned.ids())
    if (planned[d] > planned[device]) device = d;
  std::vector<LiveTensor> largest = live_tensors(c, device);
  const std::size_t tensor_count = largest.size();
  largest.resize(std::min<std::size_t>(tensor_count, 10));
  const PlanDevice& d = c.plan.devices[device];
  const std::string data =
      c.options.data_bytes == 0 ? "" : cat(", without the ", bytes_text(c.options.data_bytes), " of data sets");
  fail(ErrorKind::device, "plan '", c.plan.name, "' needs ", bytes_text(planned[device]), " (", planned[device],
       " bytes) on device ", d.rank, ".", d.device, ", but the limit is ", bytes_text(limit), " (", limit, " bytes",
       data, "); this is the smallest of ", plans, plans == 1 ? " plan" : " plans", " tried; the largest ",
       largest.size(), " of its ", tensor_count, " tensors are:\n",
       join(largest, "\n", [&](const LiveTensor& tensor) { return text_of(c, tensor); }),
       memory_suggestions(c, device));
}

}  // namespace karez::passes
