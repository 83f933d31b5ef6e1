// Which values of the local program leave the actor that makes them.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True where a local value's bytes are taken by another actor than the one that makes them (so it needs a register).
ById<LocalId, bool> crosses_actors(const LocalProgram& program, const Segmentation& segmentation);

// Roots that a launch reads or hands out.
ById<LocalId, bool> read_by_launches(const LocalProgram& program);

}  // namespace karez::passes
