// Indices that a function takes as arguments, looked at before a launch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/graph/graph.h"

namespace karez {

// Every element of argument `number` indexes a table of `limit` rows, or is `ignored`.
struct IndexCheck {
  int argument = 0;
  std::int64_t limit = 0;
  std::optional<std::int64_t> ignored;
  std::string name;   // "the index", "cross_entropy's label"
  std::string where;  // the node's, with the user's line

  // Throws (kind data) with the first element that is neither. A part that one rank gives is left to its kernels,
  // unless that rank is alone.
  void validate(const std::vector<Argument>& arguments, bool alone) const;
};

// Of a traced program: the arguments whose elements are indices as they are, or indices but for one value that a select
// takes out (the label of cross_entropy that is ignored). An index that is computed otherwise its kernel checks.
std::vector<IndexCheck> index_checks(const Graph& graph);

}  // namespace karez
