// A rule of canonicalise's algebra. One rule a file and a row in rules.cc; each keeps every bit, NaN and the sign of
// zero included, unless its row says that it sums in another order.
#pragma once

#include <optional>

#include "karez/graph/graph.h"
#include "karez/passes/logical/rewritable_producer.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// What becomes of a node with one result: it goes, for its result equals `value`, or it stays and takes `value` as its
// operand 0.
struct Replacement {
  ValueId value;
  bool as_operand = false;
};
using NodeRule = std::optional<Replacement> (*)(const Graph&, const Node&);
using GraphRule = int (*)(Graph&);  // how often it fired

// The number, if the value is a constant of one number or a window on one (and nobody fixed a layout on the way).
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
