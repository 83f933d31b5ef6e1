// recompute: finds the nodes of each region and the values to keep, and copies the other nodes for the gradients that
// read them.
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

bool of_gradient(const Node& node) { return node.path == "grad" || node.path.ends_with(".grad"); }

// True if a node may be computed twice; inputs, variables, updates and transfers may not.
bool repeatable(const Node& node) {
  return node.op->pure && node.regions.empty() && !node.outputs.empty() &&
         (node.op->role == Role::compute || node.op->role == Role::window);
}

// All prefixes of a module path: "a", "a.b", "a.b.c".
std::vector<std::string> modules_of(const std::string& path) {
  std::vector<std::string> out;
  if (path.empty()) return out;
  for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1))
    out.push_back(path.substr(0, dot));
  out.push_back(path);
  return out;
}

bool encloses(const std::string& path, const std::string& module) {
  return path.empty() || (module.size() > path.size() && starts_with(module, path) && module[path.size()] == '.');
}

struct Regions {
  ById<NodeId, RegionId> of;
  ById<RegionId, std::string> module;
  ById<RegionId, std::vector<NodeId>> nodes;  // in the program's order
};

// A region for each outermost module that a glob matches, with the nodes under it.
Regions matched(const Graph& graph, std::span<const std::string> globs) {
  const std::vector<base::Glob> patterns(globs.begin(), globs.end());
  Regions made;
  made.of.resize(graph.nodes.size());
  std::map<std::string, RegionId> by_path, by_module;
  auto region_at = [&](const std::string& path) -> RegionId {
    for (const std::string& module : modules_of(path)) {
      if (std::none_of(patterns.begin(), patterns.end(), [&](const base::Glob& glob) { return glob.matches(module); }))
        continue;
      auto [known, fresh] = by_module.try_emplace(module);
      if (fresh) known->second = made.module.add(module), made.nodes.emplace_back();
      return known->second;
    }
    return {};
  };
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    if (of_gradient(node) || !repeatable(node)) continue;
    auto [known, fresh] = by_path.try_emplace(node.path);
    if (fresh) known->second = region_at(node.path);
    if (!known->second.valid()) continue;
    made.of[n] = known->second;
    made.nodes[known->second].push_back(n);
  }
  return made;
}

// Adds the nodes on a path from a region to itself. Functions that a module calls directly have its path, or none if
// the module only calls other modules.
void add_between(const Graph& graph, const ById<ValueId, std::vector<Use>>& uses, Regions& regions) {
  for (RegionId region : regions.nodes.ids()) {
    std::vector<NodeId>& nodes = regions.nodes[region];
    const NodeId first = nodes.front(), last = nodes.back();
    const auto size = static_cast<std::size_t>(last.index - first.index) + 1;
    // For the nodes from first to last: whether the region reaches them; whether they reach the region.
    std::vector<bool> behind(size), before(size);
    auto at = [&](NodeId n) { return static_cast<std::size_t>(n.index - first.index); };
    auto is_free = [&](const Node& node, NodeId n) {
      return !regions.of[n].valid() && !of_gradient(node) && repeatable(node) &&
             encloses(node.path, regions.module[region]);
    };
    for (NodeId n = first; n <= last; n = NodeId(n.index + 1)) {
      behind[at(n)] = regions.of[n] == region;
      if (behind[at(n)] || !is_free(graph.node(n), n)) continue;
      for (ValueId in : graph.node(n).inputs) {
        const NodeId maker = graph.value(in).producer;
        if (maker >= first && behind[at(maker)]) behind[at(n)] = true;
      }
    }
    for (NodeId n = last; n >= first; n = NodeId(n.index - 1)) {
      before[at(n)] = regions.of[n] == region;
      if (before[at(n)] || !behind[at(n)]) continue;
      for (ValueId out : graph.node(n).outputs)
        for (const Use& use : uses[out])
          if (use.node <= last && before[at(use.node)]) before[at(n)] = true;
    }
    nodes.clear();
    for (NodeId n = first; n <= last; n = NodeId(n.index + 1)) {
      if (!before[at(n)]) continue;
      regions.of[n] = region;
      nodes.push_back(n);
    }
  }
}

// For each value: whether an output, a variable, or a node outside of its region and of gradients needs it.
ById<ValueId, bool> kept_values(const Graph& graph, const Regions& regions) {
  ById<ValueId, bool> kept(graph.values.size(), false);
  for (NodeId n : graph.nodes.ids()) {
    if (of_gradient(graph.node(n))) continue;
    for (ValueId in : graph.node(n).inputs)
      if (regions.of[graph.value(in).producer] != regions.of[n]) kept[in] = true;
  }
  for (const Output& output : graph.outputs) kept[output.value] = true;
  for (const Variable& variable : graph.variables)
    if (variable.updated.valid()) kept[variable.updated] = true;
  return kept;
}

class Recomputation {
 public:
  Recomputation(const Graph& graph, const Regions& regions)
      : graph_(graph),
        regions_(regions),
        kept_(kept_values(graph, regions)),
        rewrite_(graph),
        copy_(graph.nodes.size()),
        last_(graph.meshes.size()) {}

  // The new graph; none if gradients read only kept values.
  std::optional<Graph> run() {
    bool any = false;
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      if (!of_gradient(node)) {
        rewrite_.keep(n);
        continue;
      }
      std::vector<ValueId> inputs;
      fresh_.clear();
      for (ValueId in : node.inputs) inputs.push_back(is_recomputed(in) ? copied(in) : rewrite_.at(in));
      any |= !fresh_.empty();
      NodeId now = rewrite_.keep(n, std::move(inputs));
      if (repeatable(node)) last_on_mesh(n) = now;
    }
    if (!any) return {};
    return rewrite_.finish();
  }

 private:
  // The last (new) gradient node on the mesh of `n`.
  NodeId& last_on_mesh(NodeId n) { return last_[static_cast<std::size_t>(mesh_of(graph_, n))]; }
  bool is_recomputed(ValueId value) const { return regions_.of[graph_.value(value).producer].valid() && !kept_[value]; }

  // The copy of a region's value; creates it, and the copies that it depends on, if they do not exist.
  ValueId copied(ValueId wanted) {
    std::set<NodeId> missing;  // in program order
    std::vector<NodeId> stack = {graph_.value(wanted).producer};
    while (!stack.empty()) {
      const NodeId n = stack.back();
      stack.pop_back();
      if (copy_[n].valid() || !missing.insert(n).second) continue;
      for (ValueId in : graph_.node(n).inputs)
        if (is_recomputed(in)) stack.push_back(graph_.value(in).producer);
    }
    for (NodeId n : missing) add_copy(n);
    return copy_of(wanted);
  }
  ValueId copy_of(ValueId value) const {
    const Value& old = graph_.value(value);
    return rewrite_.graph().node(copy_[old.producer]).outputs[static_cast<std::size_t>(old.output)];
  }

  void add_copy(NodeId n) {
    const Node& node = graph_.node(n);
    std::vector<ValueId> inputs;
    bool follows = false;  // whether it reads another copy that was created for the same reader
    for (ValueId in : node.inputs) {
      inputs.push_back(is_recomputed(in) ? copy_of(in) : rewrite_.at(in));
      follows |= fresh_.count(rewrite_.graph().value(inputs.back()).producer) > 0;
    }
    std::vector<TensorType> types;
    for (ValueId out : node.outputs) types.push_back(graph_.type(out));
    const NodeId made =
        rewrite_.add(node.op, std::move(inputs), node.attrs, types, graph_.value(node.outputs[0]).mesh, n);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      rewrite_.graph().value(rewrite_.graph().node(made).outputs[o]).layout = graph_.value(node.outputs[o]).layout;
    if (!follows) rewrite_.graph().node(made).after = {predecessor_of_copy(n)};
    copy_[n] = made;
    fresh_.insert(made);
  }

  // The node after which the copy runs: the last gradient node so far on its mesh, or, if there is none, the region's
  // last node there.
  NodeId predecessor_of_copy(NodeId n) {
    if (last_on_mesh(n).valid()) return last_on_mesh(n);
    NodeId found;
    for (NodeId each : regions_.nodes[regions_.of[n]])
      if (mesh_of(graph_, each) == mesh_of(graph_, n) && rewrite_.node_at(each).valid()) found = rewrite_.node_at(each);
    return found;
  }

  const Graph& graph_;
  const Regions& regions_;
  ById<ValueId, bool> kept_;
  Rewrite rewrite_;
  ById<NodeId, NodeId> copy_;  // the (new) copy of each old node
  std::set<NodeId> fresh_;     // copies created for the current node
  std::vector<NodeId> last_;   // by mesh: the last (new) gradient node so far
};

}  // namespace

namespace {

void add_modules(const Graph& graph, std::set<std::string>& modules) {
  for (const Node& node : graph.nodes) {
    if (of_gradient(node)) continue;
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
    require(
        ErrorKind::name,
        std::any_of(modules.begin(), modules.end(), [&](const std::string& module) { return glob.matches(module); }),
        "remat: '", pattern, "' matches no module of this function; ",
        suggest_names(pattern, modules, [](const std::string& module) { return module; }));
  }
}

Graph recompute(Graph graph, std::span<const std::string> globs) {
  if (globs.empty()) return graph;
  Regions regions = matched(graph, globs);
  add_between(graph, uses_of(graph), regions);
  if (auto made = Recomputation(graph, regions).run()) {
    graph = std::move(*made);
    remove_dead(graph);  // removes originals that only gradients read
  }
  return graph;
}

}  // namespace karez::passes
