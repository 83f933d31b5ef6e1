// The table of algebraic rules, and the type of its rows.
#pragma once

#include <span>

#include "karez/passes/logical/algebra/rule.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct AlgebraRule {
  const char* name;
  const char* description;
  NodeRule at_node = nullptr;    // rewrites one node, which has one result
  GraphRule on_graph = nullptr;  // rewrites the whole graph; a rule has either at_node or on_graph
  bool reorders_sums = false;    // whether the rule reorders sums, so that results are equal only up to rounding
};
std::span<const AlgebraRule> algebra_rules();

}  // namespace karez::passes
