// The teams pass: chooses for each call between one thread and the whole team, by measured costs.
#pragma once

#include "karez/graph/op.h"
#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Gives each call of a launch the team, or one thread if that is faster by the cost table. The shapes and the op of a
// call decide, so that all replicas choose the same. Without measured costs of teams, calls keep the numbers of threads
// that localise and fuse chose. A call also keeps its number if another kernel would run it with the other number.
LocalProgram choose_teams(LocalProgram program, const OpTable& ops, const KernelCatalog& catalog,
                          const CompileOptions& options);

}  // namespace karez::passes
