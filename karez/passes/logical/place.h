// Pass place: assigns a mesh to every value for which the trace chose none, and inserts transfers for operands on other
// meshes.
#pragma once

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// While a program with several placements is traced, mesh 0 means undecided (see Builder::add): neither a rule nor an
// operand determines the mesh of such a value. An undecided value gets the mesh of its first reader, and a variable the
// mesh of its update. Without a reader or update a value gets the mesh of its largest operand, or stays on mesh 0, the
// mesh of the function. A constant is created on each mesh that reads it; any other value is transferred once to each
// mesh that reads it. Unused meshes are removed, and equal meshes are merged.
Graph place(Graph graph, const OpTable& ops);

}  // namespace karez::passes
