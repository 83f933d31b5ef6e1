// Gathers a value on every rank by a launch in which all ranks take part. Reads use this if some rank does not hold the
// complete value.
#pragma once

#include <memory>

#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"

namespace karez {

// Returns whether every rank holds the complete value; always false for Partial values. The result depends only on the
// layout, so it is the same on every rank.
bool whole_on_every_rank(const WorldState& world, const TensorType& type, const Mesh& mesh, const Layout& layout);

// Starts to gather a variable or an array. `part` holds the parts of the array on this rank's devices, if any. The
// caller must hold the world's lock, but must release it before it waits for the result.
runtime::Result start_gather(WorldState& world, const VariableKey& key, const StoredVariable& variable,
                             SourceLine where);
runtime::Result start_gather(WorldState& world, const ArraySpec& spec, const std::optional<runtime::Result>& part,
                             SourceLine where);

}  // namespace karez
