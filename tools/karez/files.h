// Reads and writes the files named on the command line; every error names the file.
#pragma once

#include <string>

#include "karez/graph/graph.h"
#include "karez/plan/plan.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

// Reads standard input if `path` is "-". Throws Error (kind data) if the file cannot be read.
std::string read_text(const std::string& path);
// Throws Error (kind data) if the file cannot be written.
void write_text(const std::string& path, const std::string& text);

// Reads the table in the file, for calls of `team` threads. If `path` is empty, returns the default table, which
// compile also uses.
CostTable read_costs(const std::string& path, int team = 1);

// Returns the cost table for predictions of the plan: the table in the file, adapted to the plan's teams and to the
// links between its devices, or the table in the plan if `path` is empty. All ranks are assumed to be on one host.
CostTable costs_of(const std::string& path, const Plan& plan);

Plan read_plan(const std::string& path);      // parsed: "steps.plan: plan: line 3, column 7: expected ..."
Plan verified_plan(const std::string& path);  // parsed; the plan and its cost table are verified
Graph verified_graph(const std::string& path, const OpTable& ops);

}  // namespace karez::tools
