// A variable's parts on its devices: reading them as a whole tensor and writing a whole tensor to them.
#pragma once

#include <vector>

#include "karez/api/state/world_state.h"

namespace karez {

// The boxes of a variable on this rank's devices, and the requested lock on it.
struct StoredParts {
  TensorType type;
  std::vector<sbp::Box> boxes;
  runtime::VariableLock lock;
};

// Requires the world's lock; the variable lock is waited for without it. A reader skips replicas, which are equal bit
// for bit. With several ranks each rank handles its own devices; `read_parts` requires all parts on this rank (gather.h
// handles other cases).
StoredParts parts_of(WorldState& world, const WorldState::Key& key, const StoredVariable& variable, bool writes);
HostArray read_parts(const StoredParts& stored);
void write_parts(const StoredParts& stored, const HostArray& value);  // of the variable's type

// The whole value of a variable; in a world of several ranks all must call it.
HostArray read_variable(WorldState& world, const Parameter& parameter, SourceLine where);

}  // namespace karez
