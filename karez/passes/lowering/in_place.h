// in_place: inside an actor a result reuses the bytes of an operand that is not read later.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Applies if the op allows it (OpDef::in_place) and the operand is scratch of this actor, viewed whole in the strides
// of the result, and read for the last time. The result becomes a window on it, so that the plan names the same bytes
// as operand and result. Returns the number of such results.
int write_in_place(const Graph& graph, ById<LocalId, LocalValue>& values, const std::vector<LocalCall>& calls,
                   const ById<LocalId, bool>& crosses);

// Applies write_in_place to every actor, and the same rule to the set-up.
LocalProgram in_place(LocalProgram program, const Graph& graph, const Segmentation& segmentation);

}  // namespace karez::passes
