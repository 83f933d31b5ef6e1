// Reading what does not lie whole on every rank: a launch of all ranks that brings it to each of them.
#pragma once

#include <memory>

#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"

namespace karez {

// The same answer on every rank: it depends on where the parts lie alone. Never for Partial values.
bool whole_on_every_rank(const WorldState& world, const TensorType& type, const Mesh& mesh, const Layout& layout);

// A variable, or an array of which `part` is what this rank's devices hold, if they hold some. With the world's lock;
// the result is waited for without it.
runtime::Result start_gather(WorldState& world, const WorldState::Key& key, const StoredVariable& variable,
                             SourceLine where);
runtime::Result start_gather(WorldState& world, const ArraySpec& spec, const std::optional<runtime::Result>& part,
                             SourceLine where);

}  // namespace karez
