// canonicalise: algebra, constant folding, common subexpressions and dead nodes on the logical graph.
#pragma once

#include <map>
#include <string>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// How often each rule fired, by its name: the rows of algebra_rules() and the parts below.
using RuleCounts = std::map<std::string, int>;

// What folding needs: how to evaluate a call, and how large a constant it may make; and what else is asked for.
struct FoldOptions {
  const OpTable* ops = nullptr;
  Evaluate evaluate;
  std::int64_t max_bytes = 4096;
  bool reassociate = false;  // see CompileOptions
};

// Each part alone, for tests; every one returns how many nodes it removed or replaced.
int simplify_algebra(Graph& graph, RuleCounts& rule_counts);
int fold_constants(Graph& graph, const FoldOptions& folding);
int reassociate_shared_terms(
    Graph& graph,
    bool reassociate);  // a + b + c and a + b + d share a + b, however they were written; asked for, products too
int eliminate_common_subexpressions(Graph& graph);
int remove_dead(Graph& graph);  // what no output and no variable needs

struct CanonicalGraph {
  Graph graph;
  RuleCounts rule_counts;
};
CanonicalGraph canonicalise(Graph graph, const FoldOptions& folding);

}  // namespace karez::passes
