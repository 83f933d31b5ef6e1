// IndexCheck: checks before a launch that the indices in an argument of a function are in range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/argument.h"
#include "karez/api/namespace.h"
#include "karez/graph/graph.h"

namespace karez {

// Every element of argument number `argument` must be an index into a table of `limit` rows, or be equal to `ignored`.
struct IndexCheck {
  NodeId node;  // that uses the indices
  int argument = 0;
  std::int64_t limit = 0;
  std::optional<std::int64_t> ignored;
  std::string name;   // "the index", "cross_entropy's label"
  std::string where;  // a description of the node, with the user's line

  // Throws an error of kind data for the first invalid element. A part of an argument, passed by local(), is checked
  // only in a world of one rank; otherwise the kernels check it, and always for a batch in which rows may be missing.
  void validate(const std::vector<Argument>& arguments, bool is_single_rank) const;
};

// Returns checks of the index arguments of a traced program. An index argument is one whose elements are used as
// indices directly, except for one value that a select may replace (the ignored label of cross_entropy). Indices that
// are computed in any other way are checked by the kernels that use them.
// The arguments are the inputs whose names are `prefix` and a number.
std::vector<IndexCheck> index_checks(const Graph& graph, std::string_view prefix = "arg");

// Whether the node only moves, repeats or widens elements, so that each element of the operand occurs in the result.
bool passes_elements(const Graph& graph, const Node& node);

}  // namespace karez
