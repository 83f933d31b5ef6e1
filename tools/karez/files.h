// Reading what the user names on the command line; every error begins with the file's name.
#pragma once

#include <string>

#include "karez/graph/graph.h"
#include "karez/plan/plan.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

std::string read_text(
    const std::string& path);  // "-" is standard input; a file that cannot be read is an error of data
void write_text(const std::string& path, const std::string& text);

// The table in the file, for calls of so many threads, or (no name) the default one, which is what compile takes where
// it is told nothing.
CostTable read_costs(const std::string& path, int team = 1);

// By which a plan is predicted: the file's table for the plan's teams and the links that join its devices, or (no name)
// the one that the plan keeps. Its ranks are taken to be on one host.
CostTable costs_of(const std::string& path, const Plan& plan);

Plan read_plan(const std::string& path);      // parsed: "steps.plan: plan: line 3, column 7: expected ..."
Plan verified_plan(const std::string& path);  // and verified, with its cost table
Graph verified_graph(const std::string& path, const OpTable& ops);

}  // namespace karez::tools
