// Pass canonicalise: algebraic rules, constant folding, common subexpressions and dead node removal.
#pragma once

#include <map>
#include <string>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The number of times that each rule was applied. The names are those of algebra_rules() and of the functions below.
using RuleCounts = std::map<std::string, int>;

struct FoldOptions {
  const OpTable* ops = nullptr;
  Evaluate evaluate;              // evaluates a call
  std::int64_t max_bytes = 4096;  // maximum bytes of a constant that folding creates
  bool reassociate = false;       // see CompileOptions
};

// The steps of canonicalise, declared separately for tests. Each returns the number of changes that it made.
int simplify_algebra(Graph& graph, RuleCounts& rule_counts);
int fold_constants(Graph& graph, const FoldOptions& folding);
// Regroups sums so that they share common terms: a + b + c and d + b + a share a + b. If `reassociate` is set, does the
// same for multiplications.
int reassociate_shared_terms(Graph& graph, bool reassociate);
int eliminate_common_subexpressions(Graph& graph);
int remove_dead(Graph& graph);  // removes nodes on which no output and no variable depends

struct CanonicalGraph {
  Graph graph;
  RuleCounts rule_counts;
};
CanonicalGraph canonicalise(Graph graph, const FoldOptions& folding);

}  // namespace karez::passes
