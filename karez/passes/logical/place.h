// place: a mesh for every value that the trace left undecided, and transfers wherever a node still takes what lies on
// another mesh.
#pragma once

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// While a program with several placements is traced, mesh 0 means undecided (see Builder::add): no rule and no operand
// says where such a value lies. It goes where its first reader lies, a variable where its update does, and stays on
// mesh 0, the function's own, if nothing says more. A constant is made on each mesh that reads it; anything else
// travels once to each. Meshes that nothing lies on are left out, equal ones are one.
Graph place(Graph graph, const OpTable& ops);

}  // namespace karez::passes
