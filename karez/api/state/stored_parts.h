// StoredParts: the parts of a variable on this rank's devices, for reading and writing its value.
#pragma once

#include <vector>

#include "karez/api/source_line.h"
#include "karez/api/state/world_state.h"

namespace karez {

// The boxes of a variable on this rank's devices, and the requested lock on the variable.
struct StoredParts {
  TensorType type;
  std::vector<sbp::Box> boxes;
  runtime::VariableLock lock;
};

// parts_of requires the world's lock and requests a lock on the variable. read_parts and write_parts wait for the
// variable's lock; call them without the world's lock. A reader skips replicas, which are identical bit for bit. With
// several ranks, each rank handles its own devices; read_parts requires that all parts are on this rank (gather.h
// handles other cases).
StoredParts parts_of(WorldState& world, const VariableKey& key, const StoredVariable& variable, bool writes);
HostArray read_parts(const StoredParts& stored);
void write_parts(const StoredParts& stored, const HostArray& value);  // `value` has the variable's type

// Returns the complete value of a variable. In a world of several ranks, all ranks must call read_variable.
HostArray read_variable(WorldState& world, const Parameter& parameter, SourceLine where);

}  // namespace karez
