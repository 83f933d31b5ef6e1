// The text of a graph without the names that users gave to modules and files.
#pragma once

#include <string>

#include "karez/graph/graph.h"

namespace karez::graph {

// Like print(graph), without module paths and source lines, so that equal programs have equal texts.
std::string print_without_sources(const Graph& graph);

}  // namespace karez::graph
