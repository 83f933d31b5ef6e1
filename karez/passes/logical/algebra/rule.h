// The algebraic rules of canonicalise. Each rule has a file and a row in rules.cc. Results stay identical in every bit,
// NaN and the sign of zero included, unless the row sets reorders_sums. (A signalling NaN may become quiet or not.)
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "karez/graph/graph.h"
#include "karez/passes/logical/rewritable_producer.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The change that a rule makes to a node with one result. By default the node is removed, because its result equals
// `value`. With `as_operand` the node stays and reads `value` as operand number `operand`, with the attributes `attrs`
// if they are given.
struct Replacement {
  ValueId value;
  bool as_operand = false;
  std::size_t operand = 0;
  std::optional<Attrs> attrs = {};
};
using NodeRule = std::optional<Replacement> (*)(const Graph&, const Node&);
using GraphRule = int (*)(Graph&);  // returns how many times it was applied

// Returns the number that all elements equal, if the value is a splat or a window on a splat. Returns nullopt for other
// values, and if the user fixed the layout of the value or of the splat.
std::optional<double> splat_of(const Graph& graph, ValueId value);

// Returns the producer of the value if it is this op, if a rule may bypass the value, and if the op's operand 0 has the
// placement of its result; otherwise null.
const Node* producer_on_mesh(const Graph& graph, ValueId value, std::string_view op);

std::optional<Replacement> stop_gradient(const Graph& graph, const Node& node);
std::optional<Replacement> same_type(const Graph& graph, const Node& node);
std::optional<Replacement> same_order(const Graph& graph, const Node& node);
std::optional<Replacement> one_part(const Graph& graph, const Node& node);
std::optional<Replacement> add_zero(const Graph& graph, const Node& node);
std::optional<Replacement> multiply_by_one(const Graph& graph, const Node& node);
std::optional<Replacement> double_negation(const Graph& graph, const Node& node);
std::optional<Replacement> transpose_of_transpose(const Graph& graph, const Node& node);
std::optional<Replacement> reshape_of_reshape(const Graph& graph, const Node& node);
std::optional<Replacement> slice_of_concat(const Graph& graph, const Node& node);
std::optional<Replacement> cast_of_cast(const Graph& graph, const Node& node);
std::optional<Replacement> transposed_factor(const Graph& graph, const Node& node);
std::optional<Replacement> pooled_gradient_sum(const Graph& graph, const Node& node);
int pool_before_relu(Graph& graph);
int cast_of_one_hot(Graph& graph);

}  // namespace karez::passes
