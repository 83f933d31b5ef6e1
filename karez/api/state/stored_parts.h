// A variable's parts on its devices, and the whole put together from them or parted among them.
#pragma once

#include <vector>

#include "karez/api/state/world_state.h"

namespace karez {

// What lies where of a variable, and the turn at it that was asked for.
struct StoredParts {
  TensorType type;
  std::vector<sbp::Box> boxes;
  runtime::VariableLock lock;
};

// With the world's lock; the turn is waited for without it. A reader needs no replica twice: they hold equal bits. Of
// several ranks each sees to what its own devices hold; `read_parts` needs all of it (gather.h brings what is
// elsewhere).
StoredParts parts_of(WorldState& world, const WorldState::Key& key, const StoredVariable& variable, bool writes);
HostArray read_parts(const StoredParts& stored);
void write_parts(const StoredParts& stored, const HostArray& value);  // of the variable's type

// The whole value of a variable of the world's; in a world of several ranks all come here together.
HostArray read_variable(WorldState& world, const Parameter& parameter, SourceLine where);

}  // namespace karez
