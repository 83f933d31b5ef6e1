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

bool of_gradient(const Node& node) { return node.path == "grad" || node.path.ends_with(".grad"); }

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

// The module of each path of a node that is not part of a gradient; "" for none.
std::map<std::string, std::string> modules_of(const Graph& graph) {
  std::set<std::string> paths;
  for (const Node& node : graph.nodes)
    if (node.op->role == Role::compute && !of_gradient(node)) paths.insert(node.path);
  std::map<std::string, std::set<std::string>> alike;
  for (const std::string& path : paths)
    for (const std::string& module : enclosing_modules(path)) alike[without_numbers(module)].insert(module);
  const bool repeat = std::any_of(alike.begin(), alike.end(), [](const auto& kind) { return kind.second.size() > 1; });
  std::map<std::string, std::string> out;
  for (const std::string& path : paths) {
    const auto around = enclosing_modules(path);
    const auto found = std::find_if(around.begin(), around.end(), [&](const std::string& m) {
      return !repeat || alike[without_numbers(m)].size() > 1;
    });
    out[path] = found == around.end() ? "" : *found;
  }
  return out;
}

// Bytes of the values that are computed before the first gradient and read at or after it, also through windows.
std::int64_t activation_bytes(const Graph& graph) {
  const auto uses = uses_of(graph);
  NodeId first;
  for (NodeId n : graph.nodes.ids())
    if (!first.valid() && of_gradient(graph.node(n))) first = n;
  std::int64_t bytes = 0;
  for (ValueId v : graph.values.ids()) {
    const NodeId maker = graph.value(v).producer;
    if (!first.valid() || maker > first) break;
    if (graph.node(maker).op->role != Role::compute) continue;
    std::set<NodeId> readers;
    collect_readers(graph, uses, v, readers);
    if (!readers.empty() && *readers.rbegin() >= first)
      bytes += count_of(graph.type(v).shape) * size_of(graph.type(v).dtype);
  }
  return bytes;
}

}  // namespace

std::vector<std::vector<std::string>> recompute_candidates(const Graph& graph, std::span<const std::string> already) {
  std::vector<std::string> modules;  // in program order
  const auto module_at = modules_of(graph);
  for (const Node& node : graph.nodes) {
    const auto at = module_at.find(node.path);
    if (at == module_at.end() || at->second.empty() ||
        std::find(modules.begin(), modules.end(), at->second) != modules.end())
      continue;
    modules.push_back(at->second);
  }
  std::vector<std::string> with(already.begin(), already.end());
  const std::int64_t all = activation_bytes(recompute(graph, with));
  std::vector<std::pair<std::string, std::int64_t>> freed;
  for (const std::string& module : modules) {
    with.push_back(module);
    if (const std::int64_t less = all - activation_bytes(recompute(graph, with)); less > 0)
      freed.emplace_back(module, less);
    with.pop_back();
  }
  std::stable_sort(freed.begin(), freed.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::vector<std::string>> out;
  for (std::size_t part = 1; part <= parts; ++part) {
    const std::size_t count = (freed.size() * part + parts - 1) / parts;
    if (count == 0 || (!out.empty() && out.back().size() == already.size() + count)) continue;
    for (std::size_t i = 0; i < count; ++i) with.push_back(freed[i].first);
    out.push_back(with);
    with.resize(already.size());
  }
  return out;
}

}  // namespace karez::passes
