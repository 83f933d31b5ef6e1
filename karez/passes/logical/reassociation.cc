// canonicalise's sharing of common terms: a + b + c and d + b + a share a + b, in any order of terms; products only if
// `reassociate` is set.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "karez/graph/op.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/logical/rewritable_producer.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// A sum such as a + b + c as the tree's root and its operands: inner nodes are used once and have no fixed layout.
struct Terms {
  NodeId root;
  std::vector<ValueId> operands;  // sorted; one entry per occurrence
};

class TermLists {
 public:
  TermLists(const Graph& graph, const OpDef* op)
      : graph_(graph),
        op_(op),
        uses_(uses_of(graph)),
        kept_(graph.values.size(), false) {
    for (const Output& output : graph.outputs) kept_[output.value] = true;
    for (const Variable& variable : graph.variables)
      if (variable.updated.valid()) kept_[variable.updated] = true;
    for (NodeId n : graph.nodes.ids()) {
      // A sum whose layout the user fixed stays: as a term of another sum it would impose its layout on both.
      if (graph.nodes[n].op != op || is_inner(n) || graph.value(graph.nodes[n].outputs[0]).layout) continue;
      Terms chain{n, {}};
      collect(n, chain.operands);
      std::sort(chain.operands.begin(), chain.operands.end());
      chains.push_back(std::move(chain));
    }
  }

  // True if the node is inside a larger sum, the only user of its value.
  bool is_inner(NodeId node) const {
    ValueId out = graph_.node(node).outputs[0];
    const auto& users = uses_[out];
    return users.size() == 1 && graph_.node(users[0].node).op == op_ && !kept_[out] && !graph_.value(out).layout;
  }

  std::vector<Terms> chains;

 private:
  void collect(NodeId node, std::vector<ValueId>& operands) const {
    for (ValueId in : graph_.node(node).inputs) {
      NodeId producer = graph_.value(in).producer;
      if (graph_.node(producer).op == op_ && is_inner(producer)) {
        collect(producer, operands);
      } else {
        operands.push_back(in);
      }
    }
  }

  const Graph& graph_;
  const OpDef* op_;
  ById<ValueId, std::vector<Use>> uses_;
  ById<ValueId, bool> kept_;
};

using Pair = std::pair<ValueId, ValueId>;

// The pair of operands that the most sums share (at least two); of several, the smallest pair.
std::optional<Pair> shared_pair(const std::vector<Terms>& chains) {
  std::map<Pair, int> count;
  constexpr std::size_t longest = 32;  // longer sums are not changed: the number of pairs is quadratic
  for (const Terms& chain : chains) {
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

int reassociate_shared_terms_of(Graph& graph, const OpDef* op) {
  TermLists found(graph, op);
  bool any_long = std::any_of(found.chains.begin(), found.chains.end(),
                              [](const Terms& chain) { return chain.operands.size() > 2; });
  if (!any_long) return 0;
  // Each new value stands for a pair; new values are numbered after the old ones.
  std::vector<Pair> made;
  std::set<NodeId> changed;
  auto first = graph.values.size();
  while (auto pair = shared_pair(found.chains)) {
    ValueId name(first + made.size());
    made.push_back(*pair);
    for (Terms& chain : found.chains) {
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
  Rewrite rewrite(graph);
  std::vector<ValueId> parts(made.size());
  std::map<NodeId, const Terms*> chain_of;
  for (const Terms& chain : found.chains)
    if (changed.count(chain.root)) chain_of[chain.root] = &chain;
  int saved = static_cast<int>(graph.nodes.size());
  for (NodeId n : graph.nodes.ids()) {
    auto at = chain_of.find(n);
    if (at == chain_of.end()) {
      rewrite.keep(n);
      continue;
    }
    const Node& root = graph.nodes[n];
    const TensorType& type = graph.type(root.outputs[0]);
    int mesh = graph.value(root.outputs[0]).mesh;
    auto join = [&](ValueId a, ValueId b) {
      NodeId node = rewrite.add(root.op, {a, b}, root.attrs, std::span(&type, 1), mesh, n);
      return rewrite.graph().node(node).outputs[0];
    };
    // A pair is computed at the root of the first sum that contains it: its operands exist there.
    auto value = [&](auto& self, ValueId id) -> ValueId {
      if (static_cast<std::size_t>(id.index) < first) return rewrite.at(id);
      auto k = static_cast<std::size_t>(id.index) - first;
      if (!parts[k].valid()) parts[k] = join(self(self, made[k].first), self(self, made[k].second));
      return parts[k];
    };
    ValueId sum = value(value, at->second->operands[0]);
    for (std::size_t i = 1; i < at->second->operands.size(); ++i)
      sum = join(sum, value(value, at->second->operands[i]));
    rewrite.map(root.outputs[0], sum);
  }
  graph = rewrite.finish();
  remove_dead(graph);
  return saved - static_cast<int>(graph.nodes.size());
}

}  // namespace

int reassociate_shared_terms(Graph& graph, bool reassociate) {
  std::set<std::string> seen;
  for (const Node& node : graph.nodes)
    if (node.op->associative && (reassociate || !node.op->overflows_regrouped)) seen.insert(node.op->name);
  int saved = 0;
  for (const std::string& name : seen) {
    auto any =
        std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op->name == name; });
    if (any != graph.nodes.end()) saved += reassociate_shared_terms_of(graph, any->op);
  }
  return saved;
}

}  // namespace karez::passes
