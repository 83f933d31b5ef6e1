// memory: where values lie that live inside one actor: offsets in one scratch block per stream.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

// True where a local value's bytes are taken by another actor than the one that makes them (so it needs a register).
std::vector<bool> crosses_actors(const Compilation& c);

// Fills scratch_offset (by local value) and workspace_offset (by local segment and call); scratch_bytes by device.
void memory(Compilation& c);

}  // namespace karez::passes
