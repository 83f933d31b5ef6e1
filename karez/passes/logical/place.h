// Pass place: assigns a mesh to every value for which the trace chose none, and inserts transfers for operands that are
// on another mesh than their reader.
#pragma once

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// While a program with several placements is traced, mesh 0 means that neither a rule nor an operand determines the
// mesh of a value (see Builder::add). Such a value gets the mesh of its first reader; a variable gets the mesh of its
// update. A value without a reader or update gets the mesh of its largest operand; if no operand has a mesh either, it
// stays on mesh 0, the mesh of the function. A constant is created on each mesh that reads it. Any other value is
// transferred once to each mesh that reads it. Unused meshes are removed, and equal meshes are merged.
Graph place(Graph graph, const OpTable& ops);

}  // namespace karez::passes
