// The rules of canonicalise's algebra as a table.
#pragma once

#include <span>

#include "karez/passes/logical/algebra/rule.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct AlgebraRule {
  const char* name;
  const char* description;
  NodeRule at_node = nullptr;    // looks at one node with one result, whose layout nobody fixed
  GraphRule on_graph = nullptr;  // or rewrites the graph as a whole
  bool reorders_sums = false;    // sums in another order: equal up to rounding
};
std::span<const AlgebraRule> algebra_rules();

}  // namespace karez::passes
