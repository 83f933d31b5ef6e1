// Gathers a value on every rank, by a launch of all ranks, for reads of values that some rank does not hold completely.
#pragma once

#include <memory>

#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"

namespace karez {

// Returns whether every rank holds the complete value. The result depends only on the layout, so it is equal on every
// rank; it is always false for Partial values.
bool whole_on_every_rank(const WorldState& world, const TensorType& type, const Mesh& mesh, const Layout& layout);

// Starts to gather a variable or an array; `part` has the parts of the array on this rank's devices, if any. Requires
// the world's lock; a wait for the result must not hold the lock.
runtime::Result start_gather(WorldState& world, const VariableKey& key, const StoredVariable& variable,
                             SourceLine where);
runtime::Result start_gather(WorldState& world, const ArraySpec& spec, const std::optional<runtime::Result>& part,
                             SourceLine where);

}  // namespace karez
