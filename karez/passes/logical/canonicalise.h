// canonicalise: algebraic rules, constant folding, common subexpressions and dead node removal on the logical graph.
#pragma once

#include <map>
#include <string>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The number of times each rule was applied, by name: the rows of algebra_rules() and the functions below.
using RuleCounts = std::map<std::string, int>;

// Options of canonicalise: how to evaluate a call, the largest constant that folding creates, and regrouping.
struct FoldOptions {
  const OpTable* ops = nullptr;
  Evaluate evaluate;
  std::int64_t max_bytes = 4096;
  bool reassociate = false;  // see CompileOptions
};

// The steps of canonicalise, separate for tests; each returns the number of nodes that it removed or replaced.
int simplify_algebra(Graph& graph, RuleCounts& rule_counts);
int fold_constants(Graph& graph, const FoldOptions& folding);
// a + b + c and d + b + a share a + b; products too if `reassociate` is set.
int reassociate_shared_terms(Graph& graph, bool reassociate);
int eliminate_common_subexpressions(Graph& graph);
int remove_dead(Graph& graph);  // removes nodes that no output and no variable depends on

struct CanonicalGraph {
  Graph graph;
  RuleCounts rule_counts;
};
CanonicalGraph canonicalise(Graph graph, const FoldOptions& folding);

}  // namespace karez::passes
