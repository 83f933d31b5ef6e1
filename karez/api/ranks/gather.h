// Reads values that are not whole on every rank, by a launch of all ranks that brings the value to each of them.
#pragma once

#include <memory>

#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"

namespace karez {

// The result is equal on every rank, since it depends only on the layout. Always false for Partial values.
bool whole_on_every_rank(const WorldState& world, const TensorType& type, const Mesh& mesh, const Layout& layout);

// Starts to gather a variable, or an array; `part` is the array on this rank's devices, if it has any part there.
// Requires the world's lock; the result is waited for without it.
runtime::Result start_gather(WorldState& world, const WorldState::Key& key, const StoredVariable& variable,
                             SourceLine where);
runtime::Result start_gather(WorldState& world, const ArraySpec& spec, const std::optional<runtime::Result>& part,
                             SourceLine where);

}  // namespace karez
