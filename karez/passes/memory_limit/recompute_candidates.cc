// Sorts modules by the bytes that recomputing them would free.
#include "karez/passes/memory_limit/recompute_candidates.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "karez/graph/op.h"
#include "karez/passes/logical/recompute.h"
#include "karez/passes/scheduling/readers.h"

namespace karez::passes {
namespace {

constexpr std::size_t parts = 4;

bool is_gradient(const Node& node) { return node.path == "grad" || node.path.ends_with(".grad"); }

std::vector<std::string> enclosing_modules(const std::string& path) {
  std::vector<std::string> out;
  if (path.empty()) return out;
  for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1))
    out.push_back(path.substr(0, dot));
  out.push_back(path);
  return out;
}

// "block12.up" -> "block#.up"
std::string without_numbers(const std::string& path) {
  std::string out;
  for (const char c : path) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) out += c;
    else if (out.empty() || out.back() != '#') out += '#';
  }
  return out;
}

// Returns, for the path of each node that is not part of a gradient, the module to recompute; "" if there is none.
std::map<std::string, std::string> modules_of(const Graph& graph) {
  std::set<std::string> paths;
  for (const Node& node : graph.nodes)
    if (node.op->role == Role::compute && !is_gradient(node)) paths.insert(node.path);
  std::map<std::string, std::set<std::string>> similar_modules;
  for (const std::string& path : paths)
    for (const std::string& module : enclosing_modules(path)) similar_modules[without_numbers(module)].insert(module);
  const bool any_repeats = std::any_of(similar_modules.begin(), similar_modules.end(),
                                       [](const auto& similar) { return similar.second.size() > 1; });
  std::map<std::string, std::string> modules;
  for (const std::string& path : paths) {
    const auto enclosing = enclosing_modules(path);
    const auto found = std::find_if(enclosing.begin(), enclosing.end(), [&](const std::string& m) {
      return !any_repeats || similar_modules[without_numbers(m)].size() > 1;
    });
    modules[path] = found == enclosing.end() ? "" : *found;
  }
  return modules;
}

// Returns the bytes of the values that are computed before the first gradient node and read, directly or through
// windows, by this node or by later ones.
std::int64_t activation_bytes(const Graph& graph) {
  const auto uses = uses_of(graph);
  NodeId first_gradient;
  for (NodeId n : graph.nodes.ids())
    if (!first_gradient.valid() && is_gradient(graph.node(n))) first_gradient = n;
  std::int64_t bytes = 0;
  for (ValueId v : graph.values.ids()) {
    const NodeId producer = graph.value(v).producer;
    if (!first_gradient.valid() || producer > first_gradient) break;
    if (graph.node(producer).op->role != Role::compute) continue;
    std::set<NodeId> readers;
    collect_readers(graph, uses, v, readers);
    if (!readers.empty() && *readers.rbegin() >= first_gradient)
      bytes += count_of(graph.type(v).shape) * size_of(graph.type(v).dtype);
  }
  return bytes;
}

}  // namespace

std::vector<std::vector<std::string>> recompute_candidates(const Graph& graph,
                                                           std::span<const std::string> user_modules) {
  std::vector<std::string> modules;  // in program order
  const auto module_at = modules_of(graph);
  for (const Node& node : graph.nodes) {
    const auto found = module_at.find(node.path);
    if (found == module_at.end() || found->second.empty() ||
        std::find(modules.begin(), modules.end(), found->second) != modules.end())
      continue;
    modules.push_back(found->second);
  }
  std::vector<std::string> recomputed(user_modules.begin(), user_modules.end());
  const std::int64_t all_bytes = activation_bytes(recompute(graph, recomputed));
  std::vector<std::pair<std::string, std::int64_t>> freed;
  for (const std::string& module : modules) {
    recomputed.push_back(module);
    if (const std::int64_t freed_bytes = all_bytes - activation_bytes(recompute(graph, recomputed)); freed_bytes > 0)
      freed.emplace_back(module, freed_bytes);
    recomputed.pop_back();
  }
  std::stable_sort(freed.begin(), freed.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::vector<std::string>> candidates;
  for (std::size_t part = 1; part <= parts; ++part) {
    const std::size_t count = (freed.size() * part + parts - 1) / parts;
    if (count == 0 || (!candidates.empty() && candidates.back().size() == user_modules.size() + count)) continue;
    for (std::size_t i = 0; i < count; ++i) recomputed.push_back(freed[i].first);
    candidates.push_back(recomputed);
    recomputed.resize(user_modules.size());
  }
  return candidates;
}

}  // namespace karez::passes
