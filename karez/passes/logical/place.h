// place: assigns a mesh to every value that the trace left undecided, and inserts transfers for operands on other
// meshes.
#pragma once

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// While a program with several placements is traced, mesh 0 means undecided (see Builder::add): neither a rule nor an
// operand determines the mesh of such a value. It gets the mesh of its first reader, a variable that of its update;
// without either it gets the mesh of its largest operand, or stays on mesh 0, the function's own. A constant is created
// on each mesh that reads it; other values are transferred once to each. Unused meshes are removed, equal ones merged.
Graph place(Graph graph, const OpTable& ops);

}  // namespace karez::passes
