// The values of the local program that actors other than the producer read.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True for a root that an actor other than its producer reads, so that it needs a register.
ById<LocalId, bool> crosses_actors(const LocalProgram& program, const Segmentation& segmentation);

// True for roots that a launch reads or returns as outputs.
ById<LocalId, bool> read_by_launches(const LocalProgram& program);

}  // namespace karez::passes
