// The hash by which ranks check that they compiled the same program.
#pragma once

#include <cstdint>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Hashes everything that must be equal on all ranks. Paths and source lines are left out.
std::uint64_t program_hash(const Compilation& c);

}  // namespace karez::passes
