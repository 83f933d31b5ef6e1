// The in_place pass: within an actor, lets a result reuse the memory of an operand that is not read again.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Lets a result reuse the memory of an operand if the op permits it (OpDef::in_place), the operand is scratch memory of
// this actor with the result's shape and strides, and the call is the operand's last use. The result becomes a window
// on the operand: the plan lists the same memory as operand and as result. Returns the number of such results.
// `crosses` is true for roots that other actors read (crosses_actors).
int write_in_place(const Graph& graph, ById<LocalId, LocalValue>& values, const std::vector<LocalCall>& calls,
                   const ById<LocalId, bool>& crosses);

// Applies write_in_place to every actor, and the same rule to the setup.
LocalProgram in_place(LocalProgram program, const Graph& graph, const Segmentation& segmentation);

}  // namespace karez::passes
