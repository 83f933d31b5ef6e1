// The step of canonicalise that regroups sums so that they share common terms, in whatever order these occur: a + b + c
// and d + b + a share a + b. Multiplications are regrouped in the same way only if `reassociate` is set.
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

// A tree of additions such as a + b + c, given by its root and operands. Inner nodes are used once and have no fixed
// layout.
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
        is_result_(graph.values.size(), false) {
    for (const Output& output : graph.outputs) is_result_[output.value] = true;
    for (const Variable& variable : graph.variables)
      if (variable.updated.valid()) is_result_[variable.updated] = true;
    for (NodeId n : graph.nodes.ids()) {
      // A sum whose layout the user fixed is not regrouped: a shared term would impose that layout on other sums.
      if (graph.nodes[n].op != op || is_inner(n) || graph.value(graph.nodes[n].outputs[0]).layout) continue;
      Terms terms{n, {}};
      collect(n, terms.operands);
      std::sort(terms.operands.begin(), terms.operands.end());
      terms_of_sums.push_back(std::move(terms));
    }
  }

  // True if the node is an inner node of a larger sum: only that sum uses its value.
  bool is_inner(NodeId node) const {
    ValueId out = graph_.node(node).outputs[0];
    const auto& users = uses_[out];
    return users.size() == 1 && graph_.node(users[0].node).op == op_ && !is_result_[out] && !graph_.value(out).layout;
  }

  std::vector<Terms> terms_of_sums;

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
  ById<ValueId, bool> is_result_;
};

using Pair = std::pair<ValueId, ValueId>;

// Finds the pair of operands that the largest number of sums share; returns nullopt if no two sums share a pair. If
// several pairs are shared equally often, returns the smallest pair.
std::optional<Pair> shared_pair(const std::vector<Terms>& terms_of_sums) {
  std::map<Pair, int> sums_by_pair;
  constexpr std::size_t max_terms = 32;  // longer sums are not changed: the number of pairs is quadratic
  for (const Terms& terms : terms_of_sums) {
    if (terms.operands.size() > max_terms) continue;
    std::set<Pair> pairs;
    for (std::size_t i = 0; i < terms.operands.size(); ++i)
      for (std::size_t k = i + 1; k < terms.operands.size(); ++k) pairs.insert({terms.operands[i], terms.operands[k]});
    for (const Pair& pair : pairs) ++sums_by_pair[pair];
  }
  std::optional<Pair> most_shared;
  int max_count = 1;
  for (const auto& [pair, count] : sums_by_pair)
    if (count > max_count) most_shared = pair, max_count = count;
  return most_shared;
}

int reassociate_shared_terms_of(Graph& graph, const OpDef* op) {
  TermLists term_lists(graph, op);
  bool has_long_sum = std::any_of(term_lists.terms_of_sums.begin(), term_lists.terms_of_sums.end(),
                                  [](const Terms& terms) { return terms.operands.size() > 2; });
  if (!has_long_sum) return 0;
  // Each new value represents a pair; new values are numbered after the old values.
  std::vector<Pair> new_pairs;
  std::set<NodeId> changed_roots;
  auto first_new_value = graph.values.size();
  while (auto pair = shared_pair(term_lists.terms_of_sums)) {
    ValueId pair_value(first_new_value + new_pairs.size());
    new_pairs.push_back(*pair);
    for (Terms& terms : term_lists.terms_of_sums) {
      auto a = std::find(terms.operands.begin(), terms.operands.end(), pair->first);
      if (a == terms.operands.end()) continue;
      auto b = std::find(a + 1, terms.operands.end(), pair->second);
      if (b == terms.operands.end()) continue;
      terms.operands.erase(b);
      *a = pair_value;
      std::sort(terms.operands.begin(), terms.operands.end());
      changed_roots.insert(terms.root);
    }
  }
  if (new_pairs.empty()) return 0;
  Rewrite rewrite(graph);
  std::vector<ValueId> pair_values(new_pairs.size());
  std::map<NodeId, const Terms*> terms_by_root;
  for (const Terms& terms : term_lists.terms_of_sums)
    if (changed_roots.count(terms.root)) terms_by_root[terms.root] = &terms;
  int old_node_count = static_cast<int>(graph.nodes.size());
  for (NodeId n : graph.nodes.ids()) {
    auto found_terms = terms_by_root.find(n);
    if (found_terms == terms_by_root.end()) {
      rewrite.keep(n);
      continue;
    }
    const Node& root = graph.nodes[n];
    const TensorType& type = graph.type(root.outputs[0]);
    int mesh = graph.value(root.outputs[0]).mesh;
    auto add_node = [&](ValueId a, ValueId b) {
      NodeId node = rewrite.add(root.op, {a, b}, root.attrs, std::span(&type, 1), mesh, n);
      return rewrite.graph().node(node).outputs[0];
    };
    // A pair is computed at the root of the first sum that contains it. Its operands exist there.
    auto value_of = [&](auto& self, ValueId id) -> ValueId {
      if (static_cast<std::size_t>(id.index) < first_new_value) return rewrite.at(id);
      auto pair_index = static_cast<std::size_t>(id.index) - first_new_value;
      if (!pair_values[pair_index].valid())
        pair_values[pair_index] =
            add_node(self(self, new_pairs[pair_index].first), self(self, new_pairs[pair_index].second));
      return pair_values[pair_index];
    };
    ValueId sum = value_of(value_of, found_terms->second->operands[0]);
    for (std::size_t i = 1; i < found_terms->second->operands.size(); ++i)
      sum = add_node(sum, value_of(value_of, found_terms->second->operands[i]));
    rewrite.map(root.outputs[0], sum);
  }
  graph = rewrite.finish();
  remove_dead(graph);
  return old_node_count - static_cast<int>(graph.nodes.size());
}

}  // namespace

int reassociate_shared_terms(Graph& graph, bool reassociate) {
  std::set<std::string> op_names;
  for (const Node& node : graph.nodes)
    if (node.op->associative && (reassociate || !node.op->overflows_regrouped)) op_names.insert(node.op->name);
  int removed_nodes = 0;
  for (const std::string& name : op_names) {
    auto found =
        std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op->name == name; });
    if (found != graph.nodes.end()) removed_nodes += reassociate_shared_terms_of(graph, found->op);
  }
  return removed_nodes;
}

}  // namespace karez::passes
