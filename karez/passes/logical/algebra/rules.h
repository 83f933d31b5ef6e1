// The table of canonicalise's algebraic rules.
#pragma once

#include <span>

#include "karez/passes/logical/algebra/rule.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct AlgebraRule {
  const char* name;
  const char* description;
  NodeRule at_node = nullptr;    // rewrites one node with one result whose layout the user did not fix
  GraphRule on_graph = nullptr;  // or rewrites the whole graph
  bool reorders_sums = false;    // sums are reordered: results are equal up to rounding
};
std::span<const AlgebraRule> algebra_rules();

}  // namespace karez::passes
