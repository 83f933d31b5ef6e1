// Where the values that the set-up makes lie in their devices' blocks of constants.
#pragma once

#include <map>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct ConstantPlaces {
  std::map<LocalId, std::int64_t> offset;  // of roots that the set-up makes
  std::vector<std::int64_t> workspace;     // by call of the set-up: where its workspace begins, if it has any
  std::vector<std::int64_t> bytes;         // by own device: of all
};

// What launches read lies there for good; what only the set-up reads, and its workspace, shares bytes with what it
// makes after.
ConstantPlaces place_constants(const LocalProgram& program, int devices);

// The own device that makes what the call of the set-up makes.
int device_of(const LocalProgram& program, const LocalCall& call);

}  // namespace karez::passes
