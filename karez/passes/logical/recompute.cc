// Finds the nodes of each region and the values to keep, and copies the nodes of the other values that gradients read.
#include "karez/passes/logical/recompute.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/base/glob.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/graph/op.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

using RegionId = Id<struct RegionTag>;

bool is_gradient(const Node& node) { return node.path == "grad" || node.path.ends_with(".grad"); }

// True if a node may be computed twice. Inputs, variables, updates and transfers may not.
bool is_repeatable(const Node& node) {
  return node.op->pure && node.regions.empty() && !node.outputs.empty() &&
         (node.op->role == Role::compute || node.op->role == Role::window);
}

// Returns all prefixes of a module path: "a", "a.b", "a.b.c".
std::vector<std::string> modules_of(const std::string& path) {
  std::vector<std::string> out;
  if (path.empty()) return out;
  for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1))
    out.push_back(path.substr(0, dot));
  out.push_back(path);
  return out;
}

bool is_enclosing(const std::string& path, const std::string& module) {
  return path.empty() || (module.size() > path.size() && starts_with(module, path) && module[path.size()] == '.');
}

struct Regions {
  ById<NodeId, RegionId> of;
  ById<RegionId, std::string> module;
  ById<RegionId, std::vector<NodeId>> nodes;  // in the program's order
};

// Creates a region for each outermost module that a glob matches. It contains the nodes under that module.
Regions find_regions(const Graph& graph, std::span<const std::string> globs) {
  const std::vector<base::Glob> patterns(globs.begin(), globs.end());
  Regions regions;
  regions.of.resize(graph.nodes.size());
  std::map<std::string, RegionId> by_path, by_module;
  auto region_at = [&](const std::string& path) -> RegionId {
    for (const std::string& module : modules_of(path)) {
      if (std::none_of(patterns.begin(), patterns.end(), [&](const base::Glob& glob) { return glob.matches(module); }))
        continue;
      auto [entry, inserted] = by_module.try_emplace(module);
      if (inserted) entry->second = regions.module.add(module), regions.nodes.emplace_back();
      return entry->second;
    }
    return {};
  };
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    if (is_gradient(node) || !is_repeatable(node)) continue;
    auto [entry, inserted] = by_path.try_emplace(node.path);
    if (inserted) entry->second = region_at(node.path);
    if (!entry->second.valid()) continue;
    regions.of[n] = entry->second;
    regions.nodes[entry->second].push_back(n);
  }
  return regions;
}

// Adds to each region the free nodes that lie on a path between two nodes of the region: nodes under no module or under
// an enclosing module. Functions that an enclosing module calls directly create such nodes.
void add_between(const Graph& graph, const ById<ValueId, std::vector<Use>>& uses, Regions& regions) {
  for (RegionId region : regions.nodes.ids()) {
    std::vector<NodeId>& nodes = regions.nodes[region];
    const NodeId first = nodes.front(), last = nodes.back();
    const auto size = static_cast<std::size_t>(last.index - first.index) + 1;
    // For each node from `first` to `last`: whether it depends on the region, and whether the region depends on it.
    std::vector<bool> follows_region(size), precedes_region(size);
    auto position = [&](NodeId n) { return static_cast<std::size_t>(n.index - first.index); };
    auto is_free = [&](const Node& node, NodeId n) {
      return !regions.of[n].valid() && !is_gradient(node) && is_repeatable(node) &&
             is_enclosing(node.path, regions.module[region]);
    };
    for (NodeId n = first; n <= last; n = NodeId(n.index + 1)) {
      follows_region[position(n)] = regions.of[n] == region;
      if (follows_region[position(n)] || !is_free(graph.node(n), n)) continue;
      for (ValueId in : graph.node(n).inputs) {
        const NodeId producer = graph.value(in).producer;
        if (producer >= first && follows_region[position(producer)]) follows_region[position(n)] = true;
      }
    }
    for (NodeId n = last; n >= first; n = NodeId(n.index - 1)) {
      precedes_region[position(n)] = regions.of[n] == region;
      if (precedes_region[position(n)] || !follows_region[position(n)]) continue;
      for (ValueId out : graph.node(n).outputs)
        for (const Use& use : uses[out])
          if (use.node <= last && precedes_region[position(use.node)]) precedes_region[position(n)] = true;
    }
    nodes.clear();
    for (NodeId n = first; n <= last; n = NodeId(n.index + 1)) {
      if (!precedes_region[position(n)]) continue;
      regions.of[n] = region;
      nodes.push_back(n);
    }
  }
}

// Returns for each value whether an output, a variable, or a node that is outside of its region and not part of a
// gradient needs it.
ById<ValueId, bool> find_kept_values(const Graph& graph, const Regions& regions) {
  ById<ValueId, bool> is_kept(graph.values.size(), false);
  for (NodeId n : graph.nodes.ids()) {
    if (is_gradient(graph.node(n))) continue;
    for (ValueId in : graph.node(n).inputs)
      if (regions.of[graph.value(in).producer] != regions.of[n]) is_kept[in] = true;
  }
  for (const Output& output : graph.outputs) is_kept[output.value] = true;
  for (const Variable& variable : graph.variables)
    if (variable.updated.valid()) is_kept[variable.updated] = true;
  return is_kept;
}

class Recomputation {
 public:
  Recomputation(const Graph& graph, const Regions& regions)
      : graph_(graph),
        regions_(regions),
        is_kept_(find_kept_values(graph, regions)),
        rewrite_(graph),
        copies_(graph.nodes.size()),
        last_gradient_node_(graph.meshes.size()) {}

  // Returns the new graph, or nullopt if gradients read only kept values.
  std::optional<Graph> run() {
    bool any_copied = false;
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      if (!is_gradient(node)) {
        rewrite_.keep(n);
        continue;
      }
      std::vector<ValueId> inputs;
      new_copies_.clear();
      for (ValueId in : node.inputs) inputs.push_back(is_recomputed(in) ? copied(in) : rewrite_.at(in));
      any_copied |= !new_copies_.empty();
      NodeId new_node = rewrite_.keep(n, std::move(inputs));
      if (is_repeatable(node)) last_on_mesh(n) = new_node;
    }
    if (!any_copied) return {};
    return rewrite_.finish();
  }

 private:
  // Returns the last (new) gradient node on the mesh of `n`.
  NodeId& last_on_mesh(NodeId n) { return last_gradient_node_[static_cast<std::size_t>(mesh_of(graph_, n))]; }
  bool is_recomputed(ValueId value) const {
    return regions_.of[graph_.value(value).producer].valid() && !is_kept_[value];
  }

  // Returns the copy of a region's value. Creates the copy and the copies that it depends on, unless they exist
  // already.
  ValueId copied(ValueId value) {
    std::set<NodeId> missing;  // in program order
    std::vector<NodeId> stack = {graph_.value(value).producer};
    while (!stack.empty()) {
      const NodeId n = stack.back();
      stack.pop_back();
      if (copies_[n].valid() || !missing.insert(n).second) continue;
      for (ValueId in : graph_.node(n).inputs)
        if (is_recomputed(in)) stack.push_back(graph_.value(in).producer);
    }
    for (NodeId n : missing) add_copy(n);
    return copy_of(value);
  }
  ValueId copy_of(ValueId value) const {
    const Value& old = graph_.value(value);
    return rewrite_.graph().node(copies_[old.producer]).outputs[static_cast<std::size_t>(old.output)];
  }

  void add_copy(NodeId n) {
    const Node& node = graph_.node(n);
    std::vector<ValueId> inputs;
    bool follows_copy = false;  // whether the copy reads another copy that was created for the same reader
    for (ValueId in : node.inputs) {
      inputs.push_back(is_recomputed(in) ? copy_of(in) : rewrite_.at(in));
      follows_copy |= new_copies_.count(rewrite_.graph().value(inputs.back()).producer) > 0;
    }
    std::vector<TensorType> types;
    for (ValueId out : node.outputs) types.push_back(graph_.type(out));
    const NodeId copy =
        rewrite_.add(node.op, std::move(inputs), node.attrs, types, graph_.value(node.outputs[0]).mesh, n);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      rewrite_.graph().value(rewrite_.graph().node(copy).outputs[o]).layout = graph_.value(node.outputs[o]).layout;
    if (!follows_copy) rewrite_.graph().node(copy).after = {predecessor_of_copy(n)};
    copies_[n] = copy;
    new_copies_.insert(copy);
  }

  // Returns the node after which the copy runs: the last gradient node on its mesh so far or, if there is none, the
  // region's last node on that mesh.
  NodeId predecessor_of_copy(NodeId n) {
    if (last_on_mesh(n).valid()) return last_on_mesh(n);
    NodeId predecessor;
    for (NodeId member : regions_.nodes[regions_.of[n]])
      if (mesh_of(graph_, member) == mesh_of(graph_, n) && rewrite_.node_at(member).valid())
        predecessor = rewrite_.node_at(member);
    return predecessor;
  }

  const Graph& graph_;
  const Regions& regions_;
  ById<ValueId, bool> is_kept_;
  Rewrite rewrite_;
  ById<NodeId, NodeId> copies_;             // the (new) copy of each old node
  std::set<NodeId> new_copies_;             // copies created for the current node
  std::vector<NodeId> last_gradient_node_;  // by mesh: the last (new) gradient node so far
};

}  // namespace

namespace {

void add_modules(const Graph& graph, std::set<std::string>& modules) {
  for (const Node& node : graph.nodes) {
    if (is_gradient(node)) continue;
    for (std::string& module : modules_of(node.path)) modules.insert(std::move(module));
    for (const Graph& region : node.regions) add_modules(region, modules);
  }
}

}  // namespace

void check_remat(const Graph& graph, std::span<const std::string> globs) {
  std::set<std::string> modules;
  add_modules(graph, modules);
  for (const std::string& pattern : globs) {
    const base::Glob glob(pattern);
    if (!std::any_of(modules.begin(), modules.end(), [&](const std::string& module) { return glob.matches(module); }))
      fail(ErrorKind::name, "remat: '", pattern, "' matches no module of this function; ",
           suggest_names(pattern, modules, [](const std::string& module) { return module; }));
  }
}

Graph recompute(Graph graph, std::span<const std::string> globs) {
  if (globs.empty()) return graph;
  Regions regions = find_regions(graph, globs);
  add_between(graph, uses_of(graph), regions);
  if (auto recomputed = Recomputation(graph, regions).run()) {
    graph = std::move(*recomputed);
    remove_dead(graph);  // removes originals that only gradients read
  }
  return graph;
}

}  // namespace karez::passes
