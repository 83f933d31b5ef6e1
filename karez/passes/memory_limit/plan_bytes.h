// Bytes of plans and local programs, for the search under a memory limit.
#pragma once

#include <cstdint>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the planned bytes of the fullest device.
std::int64_t max_device_bytes(const Plan& plan);

// Returns a lower bound for the fullest device: the live bytes of a launch that runs one act after another, plus the
// blocks that share no memory.
std::int64_t min_device_bytes(const Plan& plan);

// Returns the size of the largest block of constants.
std::int64_t constant_bytes(const Plan& plan);

// Returns the bytes of the results of the calls that the hoist pass moved, on the device with the largest sum.
std::int64_t moved_bytes(const LocalProgram& program);

}  // namespace karez::passes
