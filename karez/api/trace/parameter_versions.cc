// Finds the versions of parameters on which a value depends.
#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"

namespace karez {

std::span<const ValueId> Trace::differentiable_inputs(ValueId value) const {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid()) return {};
  for (const ops::GradientHook& hook : gradient_hooks)
    if (!hook.operands.empty() && std::find(hook.outputs.begin(), hook.outputs.end(), value) != hook.outputs.end())
      return hook.operands;
  const Node& node = graph.node(producer);
  return node.op->grad && node.op->name != "stop_gradient" ? std::span<const ValueId>(node.inputs)
                                                           : std::span<const ValueId>();
}

bool Trace::depends_on(ValueId value, ValueId source) const {
  std::set<ValueId> visited;
  std::vector<ValueId> pending = {value};
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (id == source) return true;
    // Values that are older than the source cannot depend on it.
    if (id < source || !is_float(graph.type(id).dtype) || !visited.insert(id).second) continue;
    for (const ValueId in : differentiable_inputs(id)) pending.push_back(in);
  }
  return false;
}

std::vector<ValueId> Trace::versions_read(ValueId loss, const std::vector<Parameter>& parameters) {
  std::vector<ValueId> out;
  for (const auto& parameter : parameters) {
    const auto& versions = versions_[index_of(parameter)];
    out.push_back(versions.back().value);
    if (versions.size() == 1) continue;
    // Searches backwards from the loss, up to versions of this parameter and to nodes at which gradients stop.
    std::vector<std::pair<std::size_t, NodeId>> reads;  // each: the number of the version, and the node that reads it
    ById<ValueId, bool> visited(graph.values.size());
    std::vector<std::pair<ValueId, NodeId>> stack = {{loss, NodeId()}};
    while (!stack.empty()) {
      auto [value, reader] = stack.back();
      stack.pop_back();
      if (visited[value] || !is_float(graph.type(value).dtype)) continue;
      visited[value] = true;
      auto version = std::find_if(versions.begin(), versions.end(), [&, v = value](const Version& candidate) {
        return candidate.read && candidate.value == v;
      });
      if (version != versions.end()) {
        reads.emplace_back(version - versions.begin(), reader);
        continue;
      }
      for (ValueId in : differentiable_inputs(value)) stack.emplace_back(in, graph.value(value).producer);
    }
    if (reads.empty()) continue;
    std::sort(reads.begin(), reads.end());
    auto message = [&](const std::pair<std::size_t, NodeId>& read) {
      return read.second.valid() ? describe(graph, read.second) : "the loss itself";
    };
    require(reads.size() == 1, "the loss reads two versions of parameter '", parameter.name(), "': an older one in ",
            message(reads.front()), ", and the result of an update in ", message(reads.back()),
            "; a gradient is taken at one version: update after the loss, or apply stop_gradient to one of the reads");
    out.back() = versions[reads.front().first].value;
  }
  return out;
}

std::vector<Parameter> Trace::ancestor_parameters(ValueId value) const {
  ById<ValueId, bool> visited(graph.values.size());
  std::vector<ValueId> pending = {value};
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (visited[id] || !is_float(graph.type(id).dtype)) continue;
    visited[id] = true;
    for (ValueId in : differentiable_inputs(id)) pending.push_back(in);
  }
  std::vector<Parameter> out;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (std::any_of(versions_[i].begin(), versions_[i].end(),
                    [&](const Version& version) { return visited[version.value]; }))
      out.push_back(parameters_[i]);
  return out;
}

}  // namespace karez
