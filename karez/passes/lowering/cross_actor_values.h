// Queries for the values of the local program that are read outside of the actor or set-up that computes them.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True for roots that an actor other than their producer reads, so that they need a register.
ById<LocalId, bool> crosses_actors(const LocalProgram& program, const Segmentation& segmentation);

// True for roots that a launch reads or returns as outputs.
ById<LocalId, bool> read_by_launches(const LocalProgram& program);

}  // namespace karez::passes
