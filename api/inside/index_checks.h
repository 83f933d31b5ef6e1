// Indices that a function takes as arguments, looked at before a launch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/inside/rooms.h"
#include "device/host_array.h"
#include "graph/graph.h"

namespace karez {

// Every element of argument `number` indexes a table of `limit` rows, or is `ignored`.
struct IndexCheck {
  int argument = 0;
  std::int64_t limit = 0;
  std::optional<std::int64_t> ignored;
  std::string name;   // "the index", "cross_entropy's label"
  std::string where;  // the node's, with the user's line
};

// Of a traced program: the arguments whose elements are indices as they are, or indices but for one value that a select takes out (the label of
// cross_entropy that is ignored). An index that is computed otherwise its kernel checks.
std::vector<IndexCheck> index_checks(const Graph& graph);

// Throws (kind data) with the first element that is neither.
void check_indices(const IndexCheck& check, const HostArray& argument);

}  // namespace karez
