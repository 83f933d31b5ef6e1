// Checks index arguments of a function before a launch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/graph/graph.h"

namespace karez {

// Every element of argument `number` must index a table of `limit` rows, or be `ignored`.
struct IndexCheck {
  int argument = 0;
  std::int64_t limit = 0;
  std::optional<std::int64_t> ignored;
  std::string name;   // "the index", "cross_entropy's label"
  std::string where;  // the node, with the user's line

  // Throws (kind data) with the first element that is neither. If the argument is one rank's part, only the kernels
  // check it, unless that rank is the only one.
  void validate(const std::vector<Argument>& arguments, bool alone) const;
};

// The index arguments of a traced program: their elements are used as indices directly, or except for one value that a
// select replaces (the ignored label of cross_entropy). Indices that are computed in any other way are checked by their
// kernels.
std::vector<IndexCheck> index_checks(const Graph& graph);

}  // namespace karez
