// The offsets of the set-up's results in the blocks of constants of their devices.
#pragma once

#include <map>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct ConstantPlaces {
  std::map<LocalId, std::int64_t> offset;  // of roots that the set-up computes
  std::vector<std::int64_t> workspace;     // by call of the set-up: the offset of its workspace, if it has one
  std::vector<std::int64_t> bytes;         // by own device: the size of the block
};

// Values that launches read are permanent; values that only the set-up reads, and workspaces, share bytes with later
// results.
ConstantPlaces place_constants(const LocalProgram& program, int devices);

// The own device on which the call of the set-up runs.
int device_of(const LocalProgram& program, const LocalCall& call);

}  // namespace karez::passes
