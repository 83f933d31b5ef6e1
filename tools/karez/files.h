// Reads the files named on the command line; every error begins with the file's name.
#pragma once

#include <string>

#include "karez/graph/graph.h"
#include "karez/plan/plan.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

std::string read_text(
    const std::string& path);  // "-" is standard input; a file that cannot be read is an error of kind data
void write_text(const std::string& path, const std::string& text);

// Reads the table in the file, for calls of `team` threads. Without a path, returns the default table, as compile uses
// it.
CostTable read_costs(const std::string& path, int team = 1);

// Returns the table that predicts the plan: the table of the file, for the plan's teams and the links that join its
// devices; without a path the plan's own table. All ranks are assumed to be on one host.
CostTable costs_of(const std::string& path, const Plan& plan);

Plan read_plan(const std::string& path);      // parsed: "steps.plan: plan: line 3, column 7: expected ..."
Plan verified_plan(const std::string& path);  // parsed and verified, with its cost table
Graph verified_graph(const std::string& path, const OpTable& ops);

}  // namespace karez::tools
