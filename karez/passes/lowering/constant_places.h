// Assigns offsets in each device's block of constants to the results of the setup.
#pragma once

#include <map>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct ConstantPlaces {
  std::map<LocalId, std::int64_t> offset;  // the offsets of the roots that the setup computes
  std::vector<std::int64_t> workspace;     // the offset of the workspace of each call of the setup, if it has one
  std::vector<std::int64_t> bytes;         // the size of the block of each own device
};

// Values that launches read keep their memory. Values that only the setup reads, and workspaces, share memory with
// later results.
ConstantPlaces place_constants(const LocalProgram& program, int devices);

// Returns the own device on which the call of the setup runs.
int device_of(const LocalProgram& program, const LocalCall& call);

}  // namespace karez::passes
