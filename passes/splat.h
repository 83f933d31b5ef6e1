// Values that hold one number everywhere.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace karez::passes {

// The number, if the value is a splat constant or a window on one.
std::optional<double> splat_of(const Graph& graph, ValueId value);

}  // namespace karez::passes
