// Improves a choice by changing one variable, or two that share a table, for as long as that helps.
#pragma once

#include <vector>

#include "solve/cost_graph.h"

namespace karez::solve {

// Descends from `choice` (state indices of the graph), which may be forbidden; a forbidden cell costs more than all that is allowed.
// Deterministic, and bounded: at most `sweeps` rounds over the variables.
void improve(const CostGraph&, std::vector<int>& choice, int sweeps = 10);

}  // namespace karez::solve
