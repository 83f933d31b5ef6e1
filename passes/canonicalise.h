// canonicalise: algebra, constant folding, common subexpressions and dead nodes on the logical graph.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

// Each alone, for tests; every one returns how many nodes it removed or replaced.
int simplify_algebra(Compilation& c);
int fold_constants(Compilation& c);
int merge_common(Compilation& c);  // a + b + c and a + b + d share a + b, however they were written
int remove_dead(Compilation& c);   // what no output and no variable needs

void canonicalise(Compilation& c);

}  // namespace karez::passes
