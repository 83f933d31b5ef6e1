// The compiler, which turns a traced graph into a plan.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Compiles a traced graph to c.plan: runs the pipeline and, if the plan exceeds the memory limit, searches for a
// variant that fits (memory_limit/fit_memory.h). Errors name the pass, and the node with the user's line if one is
// known.
void compile(Compilation& c);

// Runs the passes that choose layouts, without regard to the memory limit. Afterwards the graph has the layouts.
void choose_layouts(Compilation& c);

}  // namespace karez::passes
