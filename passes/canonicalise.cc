// canonicalise: dead nodes, common subexpressions and the order of the parts; algebra and folding have files of their own.
#include "passes/canonicalise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "passes/rewrite.h"

namespace karez::passes {
namespace {

bool is_commutative(const std::string& op) {
  return op == "add" || op == "mul" || op == "max" || op == "min" || op == "eq" || op == "ne" || op == "and" || op == "or";
}

// a + b + c as the tree's root and its operands: nodes inside are used once and have no layout of their own.
struct Chain {
  std::size_t root = 0;
  std::vector<ValueId> operands;  // sorted; one entry per occurrence
};

class Chains {
 public:
  Chains(const Graph& graph, const std::string& op) : graph_(graph), op_(op), uses_(uses_of(graph)), kept_(graph.values.size(), false) {
    for (const Output& output : graph.outputs) kept_[static_cast<std::size_t>(output.value.index)] = true;
    for (const Variable& variable : graph.variables)
      if (variable.updated.valid()) kept_[static_cast<std::size_t>(variable.updated.index)] = true;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      if (graph.nodes[n].op->name != op || is_inner(NodeId(n))) continue;
      Chain chain{n, {}};
      collect(NodeId(n), chain.operands);
      std::sort(chain.operands.begin(), chain.operands.end());
      chains.push_back(std::move(chain));
    }
  }

  // A link of the chain above it: nobody else needs its value.
  bool is_inner(NodeId node) const {
    ValueId out = graph_.node(node).outputs[0];
    const auto& users = uses_[static_cast<std::size_t>(out.index)];
    return users.size() == 1 && graph_.node(users[0].node).op->name == op_ && !kept_[static_cast<std::size_t>(out.index)] &&
           !graph_.value(out).layout;
  }

  std::vector<Chain> chains;

 private:
  void collect(NodeId node, std::vector<ValueId>& operands) const {
    for (ValueId in : graph_.node(node).inputs) {
      NodeId producer = graph_.value(in).producer;
      if (graph_.node(producer).op->name == op_ && is_inner(producer)) {
        collect(producer, operands);
      } else {
        operands.push_back(in);
      }
    }
  }

  const Graph& graph_;
  const std::string& op_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> kept_;
};

using Pair = std::pair<ValueId, ValueId>;

// The pair of operands that most chains share (at least two), the smallest one of equals.
std::optional<Pair> shared_pair(const std::vector<Chain>& chains) {
  std::map<Pair, int> count;
  constexpr std::size_t longest = 32;  // a longer sum is left as it is written: pairs grow with the square
  for (const Chain& chain : chains) {
    if (chain.operands.size() > longest) continue;
    std::set<Pair> pairs;
    for (std::size_t i = 0; i < chain.operands.size(); ++i)
      for (std::size_t k = i + 1; k < chain.operands.size(); ++k) pairs.insert({chain.operands[i], chain.operands[k]});
    for (const Pair& pair : pairs) ++count[pair];
  }
  std::optional<Pair> best;
  int most = 1;
  for (const auto& [pair, times] : count)
    if (times > most) best = pair, most = times;
  return best;
}

// a + b + c and d + b + a: writes a + b once. A chain without a shared pair stays as the user wrote it.
int share_parts(Compilation& c, const std::string& op) {
  Chains found(c.graph, op);
  bool any_long = std::any_of(found.chains.begin(), found.chains.end(), [](const Chain& chain) { return chain.operands.size() > 2; });
  if (!any_long) return 0;
  // New values are numbered after the old ones while chains are cut; each stands for a pair.
  std::vector<Pair> made;
  std::set<std::size_t> changed;
  auto first = c.graph.values.size();
  while (auto pair = shared_pair(found.chains)) {
    ValueId name(first + made.size());
    made.push_back(*pair);
    for (Chain& chain : found.chains) {
      auto a = std::find(chain.operands.begin(), chain.operands.end(), pair->first);
      if (a == chain.operands.end()) continue;
      auto b = std::find(a + 1, chain.operands.end(), pair->second);
      if (b == chain.operands.end()) continue;
      chain.operands.erase(b);
      *a = name;
      std::sort(chain.operands.begin(), chain.operands.end());
      changed.insert(chain.root);
    }
  }
  if (made.empty()) return 0;
  Rewrite rewrite(c.graph);
  std::vector<ValueId> parts(made.size());
  std::map<std::size_t, const Chain*> chain_of;
  for (const Chain& chain : found.chains)
    if (changed.count(chain.root)) chain_of[chain.root] = &chain;
  int saved = static_cast<int>(c.graph.nodes.size());
  for (std::size_t n = 0; n < c.graph.nodes.size(); ++n) {
    auto at = chain_of.find(n);
    if (at == chain_of.end()) {
      rewrite.keep(NodeId(n));
      continue;
    }
    const Node& root = c.graph.nodes[n];
    const TensorType& type = c.graph.type(root.outputs[0]);
    int mesh = c.graph.value(root.outputs[0]).mesh;
    auto join = [&](ValueId a, ValueId b) {
      NodeId node = rewrite.add(root.op, {a, b}, root.attrs, std::span(&type, 1), mesh, NodeId(n));
      return rewrite.graph().node(node).outputs[0];
    };
    auto value = [&](auto& self, ValueId id) -> ValueId {  // a part is made where its first chain ends: its operands exist there
      if (static_cast<std::size_t>(id.index) < first) return rewrite.at(id);
      auto k = static_cast<std::size_t>(id.index) - first;
      if (!parts[k].valid()) parts[k] = join(self(self, made[k].first), self(self, made[k].second));
      return parts[k];
    };
    ValueId sum = value(value, at->second->operands[0]);
    for (std::size_t i = 1; i < at->second->operands.size(); ++i) sum = join(sum, value(value, at->second->operands[i]));
    rewrite.graph().value(sum).layout = c.graph.value(root.outputs[0]).layout;
    rewrite.map(root.outputs[0], sum);
  }
  c.graph = rewrite.finish();
  remove_dead(c);
  return saved - static_cast<int>(c.graph.nodes.size());
}

}  // namespace

int remove_dead(Compilation& c) {
  const Graph& graph = c.graph;
  std::vector<bool> needed(graph.nodes.size(), false);
  auto need = [&](ValueId value) { needed[static_cast<std::size_t>(graph.value(value).producer.index)] = true; };
  for (const Output& output : graph.outputs) need(output.value);
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid()) continue;
    need(variable.updated);
    if (variable.read.valid()) need(variable.read);  // its place is where the new version goes
  }
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    if (needed[n])
      for (ValueId in : graph.nodes[n].inputs) need(in);
  int removed = 0;
  Rewrite rewrite(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (needed[n]) {
      rewrite.keep(NodeId(n));
    } else {
      ++removed;
    }
  }
  if (removed > 0) c.graph = rewrite.finish();
  return removed;
}

int merge_common(Compilation& c) {
  int merged = share_parts(c, "add") + share_parts(c, "mul");
  Rewrite rewrite(c.graph);
  std::map<std::string, NodeId> seen;
  int same = 0;
  for (std::size_t n = 0; n < c.graph.nodes.size(); ++n) {
    const Node& node = c.graph.nodes[n];
    std::vector<int> inputs;
    for (ValueId in : node.inputs) inputs.push_back(rewrite.at(in).index);
    if (is_commutative(node.op->name)) std::sort(inputs.begin(), inputs.end());
    std::string key = cat(node.op->name, node.attrs.print(), "(", join(inputs, ","), ")");
    for (ValueId out : node.outputs)
      if (c.graph.value(out).layout) key += cat(" ", out, print(*c.graph.value(out).layout));  // the user fixed it: it stays itself
    bool stays = !node.op->pure || !node.regions.empty() || node.op->name == "input";
    auto at = stays ? seen.end() : seen.find(key);
    if (at == seen.end()) {
      NodeId kept = rewrite.keep(NodeId(n));
      if (!stays) seen.emplace(std::move(key), kept);
      continue;
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) rewrite.map(node.outputs[o], rewrite.graph().node(at->second).outputs[o]);
    ++same;
  }
  if (same > 0) c.graph = rewrite.finish();
  return merged + same;
}

void canonicalise(Compilation& c) {
  remove_dead(c);
  simplify_algebra(c);
  fold_constants(c);
  simplify_algebra(c);  // a folded factor may be one
  merge_common(c);
  remove_dead(c);
}

}  // namespace karez::passes
