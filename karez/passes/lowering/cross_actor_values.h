// Finds the values of a local program that are read outside of the actor, or the setup, that computes them.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True for each root that an actor other than its producer reads, that is an output, or that an input or a collective
// writes. Such a root needs a register if it has a reader.
ById<LocalId, bool> crosses_actors(const LocalProgram& program, const Segmentation& segmentation);

// True for each root that a launch reads or returns as an output.
ById<LocalId, bool> read_by_launches(const LocalProgram& program);

}  // namespace karez::passes
