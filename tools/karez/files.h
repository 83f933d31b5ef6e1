// Reading what the user names on the command line; every error begins with the file's name.
#pragma once

#include <string>

#include "graph/graph.h"
#include "plan/plan.h"
#include "sbp/cost.h"

namespace karez::tools {

std::string read_text(const std::string& path);  // "-" is standard input; a file that cannot be read is an error of data
void write_text(const std::string& path, const std::string& text);

// The table in the file, or (no name) the default one, which is what compile takes where it is told nothing.
CostTable read_costs(const std::string& path);

Plan read_plan(const std::string& path);   // parsed: "steps.plan: plan: line 3, column 7: expected ..."
Plan sound_plan(const std::string& path);  // and verified
Graph sound_graph(const std::string& path, const OpTable& ops);

}  // namespace karez::tools
