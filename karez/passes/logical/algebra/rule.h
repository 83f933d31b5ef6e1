// The algebraic rules of canonicalise. Each rule has a file and a row in rules.cc. Results stay identical in every bit,
// NaN and the sign of zero included, unless the row sets reorders_sums.
#pragma once

#include <optional>

#include "karez/graph/graph.h"
#include "karez/passes/logical/rewritable_producer.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The change that a rule makes to a node with one result. By default the node is removed, because its result equals
// `value`. With `as_operand` the node stays and reads `value` as operand 0.
struct Replacement {
  ValueId value;
  bool as_operand = false;
};
using NodeRule = std::optional<Replacement> (*)(const Graph&, const Node&);
using GraphRule = int (*)(Graph&);  // returns how many times it was applied

// Returns the number that all elements equal, if the value is a splat or a window on a splat. Returns nullopt for other
// values, and if the user fixed the layout of the value or of the splat.
std::optional<double> splat_of(const Graph& graph, ValueId value);

std::optional<Replacement> stop_gradient(const Graph& graph, const Node& node);
std::optional<Replacement> same_type(const Graph& graph, const Node& node);
std::optional<Replacement> same_order(const Graph& graph, const Node& node);
std::optional<Replacement> one_part(const Graph& graph, const Node& node);
std::optional<Replacement> add_zero(const Graph& graph, const Node& node);
std::optional<Replacement> multiply_by_one(const Graph& graph, const Node& node);
std::optional<Replacement> double_negation(const Graph& graph, const Node& node);
std::optional<Replacement> pooled_gradient_sum(const Graph& graph, const Node& node);
int pool_before_relu(Graph& graph);

}  // namespace karez::passes
