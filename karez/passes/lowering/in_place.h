// in_place: inside an actor a result takes the bytes of an operand that nobody reads any more.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Where an op allows it (OpDef::in_place): the operand is scratch of this actor, seen whole, in the strides of the
// result, and read here for the last time. The result becomes a window on it, so the plan names the same bytes as
// operand and result. Returns how many.
int write_in_place(const Graph& graph, ById<LocalId, LocalValue>& values, const std::vector<LocalCall>& calls,
                   const ById<LocalId, bool>& crosses);

// On every actor.
LocalProgram in_place(LocalProgram program, const Graph& graph, const Segmentation& segmentation);

}  // namespace karez::passes
